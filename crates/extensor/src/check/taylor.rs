//! The second opinion that needs no ε: how fast the Taylor remainder falls.

use super::differences::Subject;
use crate::Result;

/// A slope below this is not that of a right gradient, which gives 2 (or more, where the second
/// derivative vanishes); a wrong one gives 1.
pub(crate) const LEAST_SLOPE: f64 = 1.75;

/// The slope at which `|φ(h) − φ(0) − h·<g, v>|` falls with `h`, on logarithmic scales; infinite if
/// nothing but rounding remains, as for functions that are affine along the direction.
///
/// The median of the slopes over the smallest steps whose remainder is still well above rounding:
/// that is where a wrong gradient's first-order remainder has overtaken all others. Kinks that the
/// line crosses make the slopes uneven, until a step crosses none and the remainder is gone at once,
/// faster than a wrong gradient's could go: then that drop decides.
pub(crate) fn slope(subject: &Subject, direction: &[Vec<f64>], projection: f64) -> Result<f64> {
    const STEPS: usize = 10;
    const FACTOR: f64 = 4.0;
    let mut remainders: Vec<f64> = Vec::new();
    let mut drop = None;
    let mut h = 1e-2;
    for _ in 0..STEPS {
        let (rise, noise) = subject.rise(direction, h)?;
        let remainder = (rise - h * projection).abs();
        // Moving the inputs rounds them too, by as much as their product with the gradient.
        let floor = 1e3 * (noise + f64::EPSILON * projection.abs());
        if remainder.is_finite() && remainder < floor {
            drop = remainders.last().map(|last| (last / floor).ln() / FACTOR.ln());
            break;
        }
        if remainder.is_finite() {
            remainders.push(remainder);
        }
        h /= FACTOR;
    }
    let mut slopes: Vec<f64> =
        remainders.windows(2).map(|w| (w[0] / w[1]).ln() / FACTOR.ln()).collect();
    let smallest = slopes.len().saturating_sub(3);
    let mut slopes = slopes.split_off(smallest);
    slopes.sort_by(f64::total_cmp);
    let median = slopes.get(slopes.len() / 2).copied();
    Ok(match (median, drop) {
        (Some(median), Some(drop)) => median.max(drop),
        (Some(median), None) => median,
        (None, _) => f64::INFINITY,
    })
}
