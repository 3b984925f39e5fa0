//! The knee of a curve: see [`Curve::knee`].

use super::Curve;

#[expect(clippy::cast_precision_loss)] // Sizes are below 2^53.
pub(super) fn farthest_below(curve: &Curve) -> Option<(u64, f64)> {
    let end = curve.end();
    let (top, bottom) = (curve.at(0), curve.at(end));
    let below = |size: u64| {
        let (right, high) = (size as f64 / end as f64, (curve.at(size) - bottom) / (top - bottom));
        (size, 1.0 - right - high)
    };
    let sizes = (1..curve.whole.buckets()).map(|bucket| curve.whole.size(bucket));
    let farthest = sizes.map(below).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    farthest.filter(|&(_, distance)| distance > 0.0)
}
