//! Hits by depth, in buckets of equal width.

/// Cumulative hits by depth, from which a curve is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    /// Width of a bucket in blocks.
    width: f64,
    /// Number of hits in this bucket and all before it.
    hits: Vec<f64>,
    requests: u64,
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts are below 2^53.
impl Histogram {
    /// Returns the histogram of `requests` uses, of which `hits[n]` were of a block at depth n + 1.
    pub(super) fn exact(requests: u64, hits: &[u64]) -> Self {
        Self::sampled(requests, 1.0, hits.iter().map(|&hits| hits as f64))
    }

    /// Returns the histogram of `requests` uses, with the estimated hits of each bucket of `width`
    /// blocks.
    pub(super) fn sampled(requests: u64, width: f64, hits: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let hits = hits.map(|hits| {
            sum += hits;
            sum
        });
        Self { width, hits: hits.collect(), requests }
    }

    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) const fn buckets(&self) -> usize {
        self.hits.len()
    }

    /// Returns the cache size at the end of a bucket; the first bucket is number 1.
    pub(super) fn size(&self, bucket: usize) -> u64 {
        (bucket as f64 * self.width).round() as u64
    }

    /// Returns the end of the last bucket, in blocks.
    pub(super) fn end(&self) -> u64 {
        self.size(self.hits.len())
    }

    /// Returns the miss ratio of a cache of `size` blocks; assumes that hits are spread evenly
    /// within a bucket.
    pub(super) fn miss_ratio(&self, size: u64) -> f64 {
        if self.requests == 0 {
            return 0.0;
        }
        let upto = |bucket: usize| match bucket.min(self.hits.len()) {
            0 => 0.0,
            buckets => self.hits[buckets - 1],
        };
        let place = size as f64 / self.width;
        let (whole, part) = (place.floor() as usize, place.fract());
        let hits = upto(whole) + part * (upto(whole.saturating_add(1)) - upto(whole));
        // The corrections of a sample can exceed either end.
        (1.0 - hits / self.requests as f64).clamp(0.0, 1.0)
    }
}

/// Returns the standard error of the mean of the miss ratios of `parts`, or 0 for fewer than two.
pub(super) fn standard_error(parts: &[Histogram], size: u64) -> f64 {
    let ratios: Vec<f64> = parts.iter().map(|part| part.miss_ratio(size)).collect();
    if ratios.len() < 2 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss)] // A small number.
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
    (squares / (n * (n - 1.0))).sqrt()
}
