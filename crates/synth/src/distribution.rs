//! The distributions of quantities in a model.

use rand::Rng;
use serde::{Deserialize, Serialize};

/// A distribution of lengths, counts or times; all values are at least 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Always this value.
    Fixed(f64),
    /// Uniform between two bounds.
    Uniform(f64, f64),
    /// Exponential with this mean, as for intervals between independent events.
    Exponential(f64),
    /// Lognormal: the median, and the standard deviation of the natural logarithm.
    Lognormal(f64, f64),
    /// Lognormal, drawn again while above the third number.
    Bounded(f64, f64, f64),
    /// One of several distributions, each with its weight.
    Mix(Vec<(f64, Self)>),
    /// A measured distribution: upper bounds in ascending order, each with its weight. Between two
    /// bounds, values are spread evenly in their logarithm; a bound given twice in succession is a
    /// value of its own.
    Steps(Vec<(f64, f64)>),
    /// Exactly these values, each with its weight.
    Values(Vec<(f64, f64)>),
}

impl Distribution {
    /// Draws a value.
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Uniform(low, high) => low + (high - low) * random.random::<f64>(),
            Self::Exponential(mean) => -mean * (1.0 - random.random::<f64>()).ln(),
            Self::Lognormal(median, sigma) => median * (sigma * normal(random)).exp(),
            Self::Bounded(median, sigma, most) => {
                // The bound is not below the median (see `check`), so at least half of the draws
                // succeed.
                loop {
                    let value = median * (sigma * normal(random)).exp();
                    if value <= *most {
                        return value;
                    }
                }
            }
            Self::Mix(parts) => parts[weighted(parts.iter().map(|part| part.0), random)].1.draw(random),
            Self::Steps(steps) => {
                let at = weighted(steps.iter().map(|step| step.1), random);
                let high = steps[at].0;
                let low = if at == 0 { high } else { steps[at - 1].0 };
                if low < high { logarithmic(low, high, random.random()) } else { high }
            }
            Self::Values(values) => values[weighted(values.iter().map(|value| value.1), random)].0,
        }
    }

    /// Draws a whole number.
    pub fn draw_whole(&self, random: &mut impl Rng) -> u64 {
        whole(self.draw(random))
    }

    /// Checks that values can be drawn.
    ///
    /// # Errors
    /// Says why no value can be drawn.
    pub fn check(&self) -> Result<(), String> {
        let numbers: Vec<f64> = match self {
            Self::Fixed(a) | Self::Exponential(a) => vec![*a],
            Self::Uniform(a, b) | Self::Lognormal(a, b) => vec![*a, *b],
            Self::Bounded(median, sigma, most) => {
                if most < median {
                    return Err(format!("the bound {most} is below the median {median}"));
                }
                vec![*median, *sigma, *most]
            }
            Self::Mix(parts) => {
                parts.iter().try_for_each(|part| part.1.check())?;
                parts.iter().map(|part| part.0).collect()
            }
            Self::Steps(steps) => {
                if steps.windows(2).any(|pair| pair[0].0 > pair[1].0) {
                    return Err("the bounds of steps must not decrease".into());
                }
                steps.iter().flat_map(|step| [step.0, step.1]).collect()
            }
            Self::Values(values) => values.iter().flat_map(|value| [value.0, value.1]).collect(),
        };
        if let Some(bad) = numbers.iter().find(|number| !number.is_finite() || **number < 0.0) {
            return Err(format!("{bad} is not a finite number of at least 0"));
        }
        let weights: Option<f64> = match self {
            Self::Mix(parts) => Some(parts.iter().map(|part| part.0).sum()),
            Self::Steps(steps) | Self::Values(steps) => Some(steps.iter().map(|step| step.1).sum()),
            _ => None,
        };
        if weights.is_some_and(|sum| sum <= 0.0) {
            return Err("the sum of the weights is 0".into());
        }
        Ok(())
    }
}

/// Interpolates between two bounds, evenly in the logarithm of the value plus 1.
fn logarithmic(low: f64, high: f64, part: f64) -> f64 {
    ((low + 1.0).ln() * (1.0 - part) + (high + 1.0).ln() * part).exp() - 1.0
}

/// Rounds to a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturation is intended.
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Draws from the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut impl Rng) -> f64 {
    let (radius, angle): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Draws an index in proportion to the weights, whose sum must not be 0.
pub fn weighted(weights: impl Iterator<Item = f64> + Clone, random: &mut impl Rng) -> usize {
    let mut left = random.random::<f64>() * weights.clone().sum::<f64>();
    let mut last = 0;
    for (n, weight) in weights.enumerate() {
        if weight > 0.0 {
            last = n;
            if left < weight {
                break;
            }
        }
        left -= weight;
    }
    last
}

/// Draws a rank from 0 to `count - 1`, where rank r has a weight of about `(r + offset) ^
/// -exponent`; it chooses among items in the order of their last use. Uses inversion, so the cost
/// does not depend on `count`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Ranks are small.
pub fn rank(count: usize, offset: f64, exponent: f64, random: &mut impl Rng) -> usize {
    let (n, u) = (count as f64, random.random::<f64>());
    let place = if (exponent - 1.0).abs() < 1e-9 {
        offset * (u * ((n + offset) / offset).ln()).exp()
    } else {
        let power = 1.0 - exponent;
        let (first, last) = (offset.powf(power), (n + offset).powf(power));
        (first + u * (last - first)).powf(1.0 / power)
    };
    ((place - offset) as usize).min(count.saturating_sub(1))
}
