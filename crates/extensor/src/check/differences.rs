//! Difference quotients.
//!
//! Everything here looks at `φ(t) = <w, f(x + t·v)>` along a line: `v` is one element's axis in a
//! full check and a random direction in a fast one. Outputs are subtracted before they are summed,
//! so that what the step does not touch cancels exactly and adds no rounding.

use crate::{DType, Error, Result, Tensor, ops};

/// A function of tensors with any number of outputs.
pub(crate) type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// A function, the point at which differences of it are taken, and the weights of its outputs.
pub(crate) struct Subject<'a> {
    f: Function<'a>,
    /// The inputs, in the dtype differences are taken in.
    inputs: Vec<Tensor>,
    /// Which of them are moved.
    pub wrt: Vec<usize>,
    /// The values of those.
    pub values: Vec<Vec<f64>>,
    weights: Vec<Vec<f64>>,
    /// The values of the outputs at the point itself.
    center: Vec<Vec<f64>>,
    /// The smallest relative difference between two numbers of the dtype.
    precision: f64,
    /// The smallest unit in which steps are measured, for each input moved.
    units: Vec<f64>,
}

/// A line through the inputs.
#[derive(Clone, Copy)]
pub(crate) enum Line<'a> {
    /// One element of the moved input number `input`.
    Element { input: usize, at: usize },
    /// All of them, at these speeds.
    Direction(&'a [Vec<f64>]),
}

/// The function's outputs at a point of the line.
struct Point {
    outputs: Vec<Vec<f64>>,
    /// How far along the line the point really is, after rounding.
    t: f64,
}

/// A difference quotient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quotient {
    pub value: f64,
    /// How many outputs moved: the length of the sum that the gradient is.
    pub terms: usize,
    /// How far apart the two one-sided differences are that it is the mean of.
    pub bend: f64,
}

/// A derivative extrapolated to a step of 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub value: f64,
    /// What is left of the error, judged by how the extrapolation settled.
    pub error: f64,
    pub terms: usize,
}

/// The one-sided differences at a point where they disagree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub left: f64,
    pub right: f64,
}

/// How large a jump is, beside the function's value, that is not taken for rounding.
const SMALLEST_JUMP: f64 = 1e-4;

impl<'a> Subject<'a> {
    /// `inputs` and `weights` are brought to the dtype that differences are taken in.
    pub fn new(
        f: Function<'a>,
        inputs: &[Tensor],
        wrt: &[usize],
        weights: &[Tensor],
        own_dtype: bool,
    ) -> Result<Subject<'a>> {
        let widen = |x: &Tensor| {
            if x.dtype().is_float() && !own_dtype {
                ops::cast(x, DType::F64)
            } else {
                Ok(x.clone())
            }
        };
        let inputs: Vec<Tensor> = inputs.iter().map(widen).collect::<Result<_>>()?;
        let outputs = f(&inputs)?;
        // Of a function that has traced tensors of its own the differences would know nothing.
        inputs.iter().chain(&outputs).try_for_each(|x| x.plain("check").map(drop))?;
        // What is rounded more coarsely, the inputs or the outputs, sets how far differences reach.
        let precision = wrt.iter().map(|&i| inputs[i].dtype().epsilon());
        let precision = precision.chain(outputs.iter().map(|y| y.dtype().epsilon()));
        let precision = precision.fold(f64::EPSILON, f64::max);
        let center = read(outputs);
        let values: Vec<Vec<f64>> = wrt.iter().map(|&i| inputs[i].to_f64_vec()).collect();
        Ok(Subject {
            f,
            units: values.iter().map(|values| unit(values)).collect(),
            values,
            wrt: wrt.to_vec(),
            weights: weights.iter().map(Tensor::to_f64_vec).collect(),
            center,
            precision,
            inputs,
        })
    }

    /// The outputs at the point itself.
    pub fn center(&self) -> &[Vec<f64>] {
        &self.center
    }

    /// The unit in which steps along the line are measured.
    pub fn scale(&self, line: &Line) -> f64 {
        match *line {
            Line::Element { input, at } => self.values[input][at].abs().max(self.units[input]),
            Line::Direction(_) => 1.0,
        }
    }

    /// The smallest unit in which steps of a moved input are measured.
    pub fn unit(&self, input: usize) -> f64 {
        self.units[input]
    }

    /// The function at distance `t` along the line. The inputs are never written to.
    fn point(&self, line: &Line, t: f64) -> Result<Point> {
        let mut moved = self.inputs.clone();
        let mut real = t;
        match *line {
            Line::Element { input, at } => {
                let mut values = self.values[input].clone();
                values[at] += t;
                let tensor = self.like(input, values)?;
                let there = if self.precision > f64::EPSILON {
                    tensor.to_f64_vec()[at]
                } else {
                    self.values[input][at] + t
                };
                real = there - self.values[input][at];
                moved[self.wrt[input]] = tensor;
            }
            Line::Direction(speeds) => {
                for (input, speed) in speeds.iter().enumerate() {
                    let values = self.values[input].iter().zip(speed);
                    let values = values.map(|(x, v)| x + t * v).collect();
                    moved[self.wrt[input]] = self.like(input, values)?;
                }
            }
        }
        let outputs = read((self.f)(&moved)?);
        Ok(Point { outputs, t: real })
    }

    /// A tensor of the shape and dtype of a moved input.
    fn like(&self, input: usize, values: Vec<f64>) -> Result<Tensor> {
        let old = &self.inputs[self.wrt[input]];
        ops::cast(&Tensor::from_vec(values, old.shape().clone())?, old.dtype())
    }

    /// `<w, p − q>` over the distance between them, and how many of the outputs differ.
    fn quotient(&self, p: &Point, q: &Point) -> (f64, usize) {
        let mut sum = 0.0;
        let mut terms = 0;
        let outputs = p.outputs.iter().zip(&q.outputs);
        for ((p, q), w) in outputs.zip(&self.weights) {
            for ((&p, &q), &w) in p.iter().zip(q).zip(w) {
                // Equal infinities have no difference either.
                if p != q {
                    sum += w * (p - q);
                    terms += 1;
                }
            }
        }
        (if terms == 0 { 0.0 } else { sum / (p.t - q.t) }, terms)
    }

    /// The point itself.
    fn middle(&self) -> Point {
        Point { outputs: self.center.clone(), t: 0.0 }
    }

    /// The central difference `(φ(h) − φ(−h)) / 2h`.
    pub fn central(&self, line: &Line, h: f64) -> Result<Quotient> {
        let (right, middle, left) = (self.point(line, h)?, self.middle(), self.point(line, -h)?);
        let (value, terms) = self.quotient(&right, &left);
        let sides = [self.quotient(&right, &middle), self.quotient(&middle, &left)];
        let bend = (sides[0].0 - sides[1].0).abs();
        Ok(Quotient { value, terms, bend })
    }

    /// How large the rounding of `φ` is, divided by a step of `h`.
    fn noise(&self, h: f64) -> f64 {
        self.precision * self.magnitude() / h
    }

    /// How large the terms of `φ` are together.
    fn magnitude(&self) -> f64 {
        let outputs = self.center.iter().zip(&self.weights);
        let squares = outputs.flat_map(|(y, w)| y.iter().zip(w).map(|(y, w)| (y * w).powi(2)));
        squares.filter(|s| s.is_finite()).sum::<f64>().sqrt()
    }

    /// The derivative along the line by Ridders' method: central differences with halving steps,
    /// extrapolated to a step of 0 by Neville's scheme (which removes the error terms in `h²`,
    /// `h⁴`, …); of all entries of the tableau the one that settled best. The choice does not
    /// depend on the gradient that is being checked.
    pub fn extrapolate(&self, line: &Line, eps: f64) -> Result<Estimate> {
        const STEPS: usize = 20;
        const ORDERS: usize = 4;
        let mut best = Estimate { value: f64::NAN, error: f64::INFINITY, terms: 0 };
        let mut previous: Vec<f64> = Vec::new();
        let mut h = (eps * 1e3).min(0.5) * self.scale(line);
        for _ in 0..STEPS {
            let Quotient { value, terms, .. } = self.central(line, h)?;
            let noise = self.noise(h);
            let mut row = vec![value];
            let mut factor = 1.0;
            for j in 0..=previous.len().min(ORDERS) {
                if j > 0 {
                    factor *= 4.0;
                    row.push((factor * row[j - 1] - previous[j - 1]) / (factor - 1.0));
                }
                let neighbours = [previous.get(j.saturating_sub(1)), row.get(j.wrapping_sub(1))];
                let apart = neighbours.iter().flatten().map(|v| (row[j] - **v).abs());
                let Some(error) = apart.max_by(f64::total_cmp) else {
                    continue;
                };
                // Where the line leaves the function's domain this is NaN, and not the best.
                let error = if error < noise { noise } else { error };
                if error <= best.error {
                    best = Estimate { value: row[j], error, terms: best.terms.max(terms) };
                }
            }
            previous = row;
            h *= 0.5;
        }
        Ok(best)
    }

    /// The one-sided differences, if they disagree however small the step (a smooth function's come
    /// together in proportion to it), or one of them does not exist. A disagreement that grows as the
    /// step falls is a jump of the function if it is a large one; a small one is rounding inside the
    /// function, coarser than its result tells.
    pub fn kink(&self, line: &Line, eps: f64) -> Result<Option<Sides>> {
        let unit = self.scale(line);
        let middle = self.middle();
        let sides = |h: f64| -> Result<Sides> {
            let (right, _) = self.quotient(&self.point(line, h)?, &middle);
            let (left, _) = self.quotient(&middle, &self.point(line, -h)?);
            Ok(Sides { left, right })
        };
        let mut before = f64::NAN;
        let mut last = None;
        let (mut rise_before, mut steeper) = (f64::NAN, 0);
        for h in [eps, eps / 8.0, eps / 64.0].map(|h| h * unit) {
            let found = sides(h)?;
            // A jump with the mean in its middle, as of the sign at 0, has equal sides, and so has a
            // vertical tangent, as of the cube root at 0: that they grow as the step falls, by 8 and by 4
            // of its 8, tells them from a slope.
            let rise = (found.right + found.left).abs();
            steeper += usize::from(rise > 3.0 * rise_before);
            if steeper == 2 && rise * h > SMALLEST_JUMP * self.magnitude() {
                return Ok(Some(found));
            }
            rise_before = rise;
            let gap = (found.right - found.left).abs();
            let jump = gap * h > SMALLEST_JUMP * self.magnitude();
            if gap > before / 4.0 && (gap < 4.0 * before || jump) && gap > 32.0 * self.noise(h) {
                return Ok(Some(found));
            }
            last = (!gap.is_finite()).then_some(found);
            before = gap;
        }
        Ok(last)
    }

    /// `<w, f(x + t·v) − f(x)>`, and how far rounding alone may take it.
    pub fn rise(&self, direction: &[Vec<f64>], t: f64) -> Result<(f64, f64)> {
        let point = self.point(&Line::Direction(direction), t)?;
        let (slope, _) = self.quotient(&point, &self.middle());
        Ok((slope * t, self.noise(1.0)))
    }
}

/// The unit of steps for these values: 1, or the largest of them where all are tiny.
fn unit(values: &[f64]) -> f64 {
    const TINY: f64 = 1e-3;
    let largest = values.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    if 0.0 < largest && largest < TINY { largest } else { 1.0 }
}

/// The values of tensors that are of a float dtype.
fn read(outputs: Vec<Tensor>) -> Vec<Vec<f64>> {
    outputs.iter().map(Tensor::to_f64_vec).collect()
}

/// An error unless every output can be differentiated.
pub(crate) fn expect_floats(name: &str, outputs: &[Tensor]) -> Result<()> {
    match outputs.iter().find(|y| !y.dtype().is_float()) {
        None => Ok(()),
        Some(y) => Err(Error::Check {
            op: name.to_string(),
            reason: format!("its output has dtype {}, which has no derivative", y.dtype()),
        }),
    }
}
