//! How far to go along a direction. This module must not know how the direction was found.

use super::{Point, Problem, along, dot};
use crate::{Result, Tensor, Tree};

/// A point along a direction.
struct Trial {
    step: f64,
    point: Point,
    /// The derivative along the direction.
    slope: f64,
}

/// What a step must satisfy: `f(x + ad) ≤ f(x) + c₁a f′` and `|f′(x + ad)| ≤ c₂|f′|`.
pub(super) struct Wolfe {
    pub c1: f64,
    pub c2: f64,
    /// Evaluations at most.
    pub limit: usize,
}

/// The first part of the condition, with slack for the rounding of the values.
fn low_enough(from: &Point, c1: f64, slope: f64, step: f64, value: f64) -> bool {
    let slack = 4.0 * f64::EPSILON * from.value.abs();
    value <= from.value + c1 * step * slope + slack
}

impl Wolfe {
    /// A point along `direction` (a descent direction) that satisfies the strong Wolfe conditions, or
    /// failing that only the first of them, or none. The search is Nocedal and Wright's (algorithms
    /// 3.5 and 3.6): steps grow until they enclose such a point, then close in on it.
    pub fn search<T: Tree, F: Fn(&T) -> Result<Tensor>>(
        &self,
        problem: &mut Problem<'_, T, F>,
        from: &Point,
        direction: &[f64],
        first: f64,
    ) -> Result<Option<Point>> {
        let slope = dot(&from.grad, direction);
        let mut trial = |step: f64| -> Result<Trial> {
            let point = problem.at(along(&from.x, step, direction))?;
            let slope = dot(&point.grad, direction);
            Ok(Trial { step, point, slope })
        };
        let flat = |t: &Trial| t.slope.abs() <= -self.c2 * slope;
        let mut used = 0;
        let limit = self.limit.max(1);
        let mut low = Trial { step: 0.0, point: from.clone(), slope };
        let mut step = first;
        // Grow.
        let mut high = loop {
            let new = trial(step)?;
            used += 1;
            let finite = new.point.value.is_finite() && new.slope.is_finite();
            let rises = !low_enough(from, self.c1, slope, step, new.point.value)
                || (used > 1 && new.point.value >= low.point.value);
            if !finite || rises {
                break new;
            }
            if flat(&new) {
                return Ok(Some(new.point));
            }
            if new.slope >= 0.0 {
                break std::mem::replace(&mut low, new);
            }
            if used >= limit {
                return Ok(Some(new.point));
            }
            let next = interpolate(&low, &new).unwrap_or(f64::INFINITY);
            step = next.clamp(1.5 * new.step, 10.0 * new.step);
            low = new;
        };
        // Close in: a good step lies between `low`, the better end, and `high`.
        while used < limit {
            let (a, b) = (low.step.min(high.step), low.step.max(high.step));
            if b - a <= f64::EPSILON * b {
                break;
            }
            let margin = 0.1 * (b - a);
            let middle = (a + b) / 2.0;
            let step = interpolate(&low, &high).unwrap_or(middle);
            let new = trial(step.clamp(a + margin, b - margin))?;
            used += 1;
            let finite = new.point.value.is_finite() && new.slope.is_finite();
            let rises = !low_enough(from, self.c1, slope, new.step, new.point.value)
                || new.point.value >= low.point.value;
            if !finite || rises {
                // Equal values near the minimum: their slopes still say which side it is on.
                if finite
                    && flat(&new)
                    && low_enough(from, self.c1, slope, new.step, new.point.value)
                {
                    return Ok(Some(new.point));
                }
                high = new;
                continue;
            }
            if flat(&new) {
                return Ok(Some(new.point));
            }
            if new.slope * (high.step - low.step) >= 0.0 {
                high = std::mem::replace(&mut low, new);
            } else {
                low = new;
            }
        }
        Ok((low.step > 0.0).then_some(low.point))
    }
}

/// Where the cubic through two points with their slopes has its minimum, if it has one.
fn interpolate(a: &Trial, b: &Trial) -> Option<f64> {
    let width = b.step - a.step;
    let d1 = a.slope + b.slope - 3.0 * (b.point.value - a.point.value) / width;
    let square = d1 * d1 - a.slope * b.slope;
    let d2 = square.max(0.0).sqrt() * width.signum();
    let at = b.step - width * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2));
    (square >= 0.0 && at.is_finite()).then_some(at)
}

/// A point along `direction` with `f(x + ad) ≤ f(x) + c₁a f′`, going back from `a = 1`; none if there is
/// none within so many evaluations.
pub(super) fn armijo<T: Tree, F: Fn(&T) -> Result<Tensor>>(
    problem: &mut Problem<'_, T, F>,
    from: &Point,
    direction: &[f64],
    c1: f64,
    limit: usize,
) -> Result<Option<Point>> {
    let slope = dot(&from.grad, direction);
    let mut step = 1.0;
    for _ in 0..limit.max(1) {
        let point = problem.at(along(&from.x, step, direction))?;
        let value = point.value;
        if value.is_finite()
            && point.grad.iter().all(|g| g.is_finite())
            && low_enough(from, c1, slope, step, value)
        {
            return Ok(Some(point));
        }
        // The minimum of the parabola through both values with the slope at the first.
        let parabola = -slope * step * step / (2.0 * (value - from.value - slope * step));
        step = match parabola.is_finite() {
            true => parabola.clamp(0.1 * step, 0.5 * step),
            false => 0.1 * step,
        };
    }
    Ok(None)
}
