//! Images brought to another size.

use crate::exec::launch_one;
use crate::exec::resample::Resample;
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::shape::{bad_parameter, bad_shape, optional};
use crate::tensor::expect_room;
use crate::{DType, Error, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::resample::{Along, Table};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// From which neighbours [`interpolate`] makes a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// The one whose place is at or before it: `⌊i·n/m⌋`, for `n` numbers that become `m`.
    #[default]
    Nearest,
    /// The one that it lies in the middle of: `⌊(i + ½)·n/m⌋`.
    NearestExact,
    /// A line through two along each axis (over two axes: bilinear, over three: trilinear).
    Linear,
    /// A cubic through four along each axis (bicubic), with slopes of −¾ (Keys' `a`).
    Cubic,
}

impl Interpolation {
    pub(super) fn named(op: &'static str, word: &str) -> Result<Interpolation> {
        Ok(match word {
            "nearest" => Interpolation::Nearest,
            "nearest-exact" => Interpolation::NearestExact,
            "linear" | "bilinear" | "trilinear" => Interpolation::Linear,
            "cubic" | "bicubic" => Interpolation::Cubic,
            _ => {
                let expected = "nearest, nearest-exact, linear, or cubic";
                return Err(bad_parameter(op, "mode", expected, word));
            }
        })
    }

    fn is_nearest(self) -> bool {
        matches!(self, Interpolation::Nearest | Interpolation::NearestExact)
    }
}

/// To which size [`interpolate`] brings images, and how.
///
/// ```
/// use extensor::ops::{InterpolateOptions, Interpolation};
/// use extensor::{DType, Tensor};
/// let x = Tensor::ones([1, 3, 8, 8], DType::F32)?;
/// let options = InterpolateOptions::new().size([12, 16]).mode(Interpolation::Linear);
/// assert_eq!(x.interpolate(options)?.shape(), [1, 3, 12, 16]);
/// assert_eq!(x.interpolate(InterpolateOptions::new().scale_factor(0.5))?.shape(), [1, 3, 4, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InterpolateOptions {
    /// The sizes of all axes but the first two: one for all, or one for each.
    pub size: Option<Shape>,
    /// Instead of these: how many times as large they become.
    pub scale_factor: Option<f64>,
    /// From which neighbours.
    pub mode: Interpolation,
    /// Whether the first and the last numbers of an axis stay where they are, and not its ends. Not for
    /// the nearest.
    pub align_corners: bool,
}

impl InterpolateOptions {
    /// The nearest neighbours, of a size that must be given.
    pub fn new() -> InterpolateOptions {
        InterpolateOptions::default()
    }

    /// To these sizes: one for all axes, or one for each.
    #[must_use]
    pub fn size(self, size: impl Into<Shape>) -> InterpolateOptions {
        InterpolateOptions { size: Some(size.into()), ..self }
    }

    /// To this many times the size.
    #[must_use]
    pub fn scale_factor(self, scale_factor: f64) -> InterpolateOptions {
        InterpolateOptions { scale_factor: Some(scale_factor), ..self }
    }

    /// From these neighbours.
    #[must_use]
    pub fn mode(self, mode: Interpolation) -> InterpolateOptions {
        InterpolateOptions { mode, ..self }
    }

    /// With the first and the last numbers where they are, or not.
    #[must_use]
    pub fn align_corners(self, align_corners: bool) -> InterpolateOptions {
        InterpolateOptions { align_corners, ..self }
    }
}

/// Images `[N, C, H, W]` (sequences `[N, C, L]`, volumes `[N, C, D, H, W]`) brought to another size. Along
/// each axis every number is a weighted sum of some neighbours, `y[i] = Σ w[i, k]·x[k]`: those around the
/// place `(i + ½)·n/m − ½` among the `n` numbers that become `m`, or with `align_corners` around
/// `i·(n − 1)/(m − 1)`; the mode says which, and their weights.
///
/// Conventions: beyond the ends of an axis are the numbers at its ends; with scale_factor the size is
/// rounded down, and places are those that the factor says; what counts nothing is not read.
///
/// ```
/// use extensor::ops::{InterpolateOptions, Interpolation};
/// use extensor::tensor;
/// let x = tensor([[[1.0, 2.0, 5.0]]]);
/// let y = x.interpolate(InterpolateOptions::new().scale_factor(2.0))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 1.0, 2.0, 2.0, 5.0, 5.0]);
/// let linear = InterpolateOptions::new().size([5]).mode(Interpolation::Linear);
/// let y = x.interpolate(linear.align_corners(true))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 1.5, 2.0, 3.5, 5.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn interpolate(x: &Tensor, options: InterpolateOptions) -> Result<Tensor> {
    apply_one(&Interpolate { options }, &[x])
}

/// The gradient of [`interpolate`] for an input of `input_shape`: each element of `grad_output` added to
/// those that it was made of, by their weights.
#[track_caller]
#[extensor_derive::noted]
pub fn interpolate_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    options: InterpolateOptions,
) -> Result<Tensor> {
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&Interpolate { options }, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// A place among the numbers of an axis: the number at or before it, which may be outside, and how far
/// it is on the way to the next.
type Place = (i64, f64);

/// The places that `to` numbers have on an axis of `from`. Ratios of sizes are not rounded.
fn places(
    options: &InterpolateOptions,
    from: usize,
    to: usize,
) -> impl Iterator<Item = Place> + use<> {
    let (mode, corners, scale) = (options.mode, options.align_corners, options.scale_factor);
    let ratio = move |top: i128, bottom: i128| {
        (top.div_euclid(bottom) as i64, top.rem_euclid(bottom) as f64 / bottom as f64)
    };
    let (n, m) = (from as i128, to as i128);
    (0..m).map(move |i| {
        let number = |place: f64| (place.floor() as i64, place - place.floor());
        match (mode, scale) {
            _ if corners && m == 1 => (0, 0.0),
            _ if corners => ratio(i * (n - 1), m - 1),
            (Interpolation::Nearest, None) => ratio(i * n, m),
            (Interpolation::NearestExact, None) => ratio((2 * i + 1) * n, 2 * m),
            (_, None) => ratio((2 * i + 1) * n - m, 2 * m),
            (Interpolation::Nearest, Some(scale)) => number(i as f64 / scale),
            (Interpolation::NearestExact, Some(scale)) => number((i as f64 + 0.5) / scale),
            (_, Some(scale)) => number((i as f64 + 0.5) / scale - 0.5),
        }
    })
}

/// The weights of the four numbers around a place that is `t` beyond the second.
fn cubic(t: f64) -> [f64; 4] {
    // (A + 2)·d³ − (A + 3)·d² + 1 for d up to 1 and A·(d³ − 5·d² + 8·d − 4) up to 2, as products.
    const A: f64 = -0.75;
    let near = |d: f64| (1.0 - d) * (1.0 + d * (1.0 - (A + 2.0) * d));
    let far = |d: f64| A * (d - 1.0) * (2.0 - d) * (2.0 - d);
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// Nearly how many bytes the neighbours of a number take, with their weights, and on the way back.
const LISTED: usize = 160;

/// What becomes of an axis.
fn along(options: &InterpolateOptions, from: usize, to: usize) -> Along {
    if from == to && options.scale_factor.is_none_or(|scale| scale == 1.0) {
        return Along::Same(from);
    }
    let last = from as i64 - 1;
    let inside = |at: i64| at.clamp(0, last) as usize;
    let mut table = Table::new(from);
    for (at, t) in places(options, from, to) {
        match options.mode {
            Interpolation::Nearest | Interpolation::NearestExact => {
                table.push([(inside(at), 1.0)]);
            }
            Interpolation::Linear => table.push([(inside(at), 1.0 - t), (inside(at + 1), t)]),
            Interpolation::Cubic => {
                table.push((at - 1..at + 3).map(inside).zip(cubic(t)));
            }
        }
    }
    Along::Table(table)
}

/// How each axis is resized, the sizes before and after, and how many volumes there are.
type Resizing = ([Along; 3], [usize; 3], [usize; 3], usize);

#[derive(Clone, Debug)]
pub(crate) struct Interpolate {
    options: InterpolateOptions,
}

impl Interpolate {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "interpolate",
        family: Family::Convolution,
        formula: "y[i] = Σ w[i, k]·x[k] along each axis, over the neighbours of place i",
        derivative: "Σ w[i, k]·g[i] along each axis",
        conventions: "beyond the ends of an axis are the numbers at its ends; with scale_factor the size is \
                      rounded down, and places are those that the factor says; what counts nothing is not read",
        params: &[
            optional(
                "size",
                "sizes of the axes after the first two: one for all, or one for each",
                "None",
            ),
            optional("scale_factor", "a number: how many times as large, in place of size", "None"),
            optional(
                "mode",
                "nearest, nearest-exact, linear (bilinear, trilinear), or cubic (bicubic)",
                "nearest",
            ),
            optional(
                "align_corners",
                "whether the first and last numbers stay where they are",
                "false",
            ),
        ],
        backward: signature!(interpolate_backward(grad_output, shape(x); size, scale_factor, mode, align_corners)),
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let op = "interpolate";
            let size = match p.optional_ints(op, "size")? {
                Some(sizes) => Some(ops::shape::sizes(op, "size", &sizes)?),
                None => None,
            };
            Ok(Box::new(Interpolate {
                options: InterpolateOptions {
                    size,
                    scale_factor: p.optional_float(op, "scale_factor")?,
                    mode: Interpolation::named(op, &p.text(op, "mode", "nearest")?)?,
                    align_corners: p.bool(op, "align_corners", false)?,
                },
            }))
        },
        samples: |s| {
            let cases: [(&[usize], &[i64]); 9] = [
                (&[2, 2, 5], &[8]),
                (&[1, 3, 7], &[3]),
                (&[2, 1, 3, 4], &[6, 7]),
                (&[1, 2, 6, 5], &[2, 3]),
                (&[1, 2, 3, 5], &[5, 2]),
                (&[1, 1, 1, 2], &[3]),
                (&[1, 2, 2, 3, 2], &[3, 4, 3]),
                (&[1, 1, 3, 4, 3], &[2, 1, 3]),
                (&[0, 2, 3, 3], &[4, 4]),
            ];
            for mode in ["nearest", "nearest-exact", "bilinear", "bicubic"] {
                for (shape, size) in cases {
                    let x = s.normal(shape);
                    s.add([x], Params::new().with("size", size).with("mode", mode));
                }
                let x = s.normal(&[1, 2, 4, 5]);
                s.add([x], Params::new().with("scale_factor", 1.7).with("mode", mode));
            }
            for mode in ["linear", "cubic"] {
                for (shape, size) in [cases[0], cases[2], cases[3], cases[7]] {
                    let x = s.normal(shape);
                    let params = Params::new().with("size", size).with("mode", mode);
                    s.add([x], params.with("align_corners", true));
                }
                let x = s.normal(&[1, 3, 90, 70]);
                let large = Params::new().with("size", [150, 120]).with("mode", mode);
                s.add_large([x.clone()], large, "many numbers");
                let small = Params::new().with("size", [31, 100]).with("mode", mode);
                s.add_large([x], small, "many numbers");
            }
        },
        errors: |bad| {
            let x = bad.ones(&[1, 2, 4, 5], DType::F64);
            let two = || Params::new().with("size", 2);
            let flat = bad.ones(&[4, 5], DType::F64);
            bad.add(
                [flat],
                two(),
                "x has shape [4, 5], expected [N, C, …] with one to three axes of",
            );
            let none = bad.ones(&[1, 2, 0, 5], DType::F64);
            bad.add([none], two(), "x has shape [1, 2, 0, 5], expected [N, C, …]");
            let ints = bad.ones(&[1, 2, 4, 5], DType::I64);
            bad.add([ints], two(), "x has dtype i64, expected a float type");
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            add(Params::new(), "size is None, expected sizes, or a scale_factor");
            add(
                two().with("scale_factor", 2.0),
                "size is [2], expected none beside a scale_factor",
            );
            let three = Params::new().with("size", [1, 2, 3]);
            add(three, "size is [1, 2, 3], expected one size, or 2, of at least 1");
            let zero = Params::new().with("size", [0, 2]);
            add(zero, "size is [0, 2], expected one size, or 2, of at least 1");
            let negative = Params::new().with("size", [-1, 2]);
            add(negative, "size is [-1, 2], expected sizes of at least 0");
            let small = Params::new().with("scale_factor", 0.2);
            add(small, "scale_factor is 0.2, expected one by which sizes are at least 1");
            let nan = Params::new().with("scale_factor", f64::NAN);
            add(nan, "scale_factor is NaN, expected a number above 0");
            let huge = Params::new().with("scale_factor", 1e30);
            add(huge, "more elements than memory can address");
            let corners = two().with("align_corners", true);
            add(corners, "align_corners is true, expected false: the nearest has no corners");
            let mode = two().with("mode", "area");
            add(mode, "mode is \"area\", expected nearest, nearest-exact, linear, or cubic");
        },
        ..Record::BLANK
    };

    /// The sizes that the axes of a tensor after the first two are brought to.
    fn sizes(&self, shape: &Shape) -> Result<SmallVec<[usize; 3]>> {
        let op = "interpolate";
        let InterpolateOptions { ref size, scale_factor, mode, align_corners } = self.options;
        let space = match &shape[..] {
            [_, _, space @ ..] if matches!(space.len(), 1..4) && !space.contains(&0) => space,
            _ => {
                let expected = "[N, C, …] with one to three axes of at least one element";
                return Err(bad_shape(op, "x", expected, shape));
            }
        };
        if align_corners && mode.is_nearest() {
            let expected = "false: the nearest has no corners";
            return Err(bad_parameter(op, "align_corners", expected, align_corners));
        }
        match (size, scale_factor) {
            (None, None) => {
                let (expected, got) = ("sizes, or a scale_factor".into(), "None".into());
                Err(Error::Parameter { op, parameter: "size", expected, got })
            }
            (Some(size), Some(_)) => {
                Err(bad_parameter(op, "size", "none beside a scale_factor", &size[..]))
            }
            (Some(size), None) => {
                let one = size.len() == 1;
                if size.contains(&0) || !(one || size.len() == space.len()) {
                    let expected = format!("one size, or {}, of at least 1", space.len());
                    return Err(bad_parameter(op, "size", expected, &size[..]));
                }
                Ok((0..space.len()).map(|axis| size[if one { 0 } else { axis }]).collect())
            }
            (None, Some(scale)) => {
                let larger = |&size: &usize| (size as f64 * scale).floor();
                if !(scale > 0.0 && scale.is_finite()) {
                    return Err(bad_parameter(op, "scale_factor", "a number above 0", scale));
                }
                if space.iter().map(larger).any(|size| size < 1.0) {
                    let expected = "one by which sizes are at least 1";
                    return Err(bad_parameter(op, "scale_factor", expected, scale));
                }
                // Too large a number is the largest that there is, and found to be too large later.
                Ok(space.iter().map(|size| larger(size) as usize).collect())
            }
        }
    }

    /// Brings planes to another size, or the way back.
    fn planes(
        op: &'static str,
        x: &Tensor,
        [planes, rows, columns]: [usize; 3],
        [down, across]: [Along; 2],
        (shape, dtype): (Shape, DType),
    ) -> Result<Tensor> {
        if matches!((&down, &across), (Along::Same(_), Along::Same(_))) {
            return ops::reshape(x, &shape);
        }
        // Where rows stay what they are, those of all planes are those of one.
        let (planes, down) = match down {
            Along::Same(_) => (1, Along::Same(planes * rows)),
            down => (planes, down),
        };
        debug_assert!(x.is_empty() || columns > 0);
        let kernel = Resample { planes, rows: Arc::new(down), columns: Arc::new(across) };
        launch_one(op, &kernel, &[&x.contiguous()?], Spec { shape, dtype })
    }

    /// The tables of the three last axes of volumes, of which the first stand still where there are fewer,
    /// the volumes before and after, and how many there are.
    fn axes(&self, shape: &Shape) -> Result<Resizing> {
        let sizes = self.sizes(shape)?;
        let listed =
            sizes.iter().chain(&shape[2..]).fold(0, |all: usize, &n| all.saturating_add(n));
        expect_room("interpolate", listed, LISTED)?;
        let missing = 3 - sizes.len();
        let [mut from, mut to] = [[1; 3]; 2];
        from[missing..].copy_from_slice(&shape[2..]);
        to[missing..].copy_from_slice(&sizes);
        let table = |axis: usize| match axis < missing {
            true => Along::Same(1),
            false => along(&self.options, from[axis], to[axis]),
        };
        let volumes = shape[..2].iter().product();
        Ok(([table(0), table(1), table(2)], from, to, volumes))
    }
}

impl Operation for Interpolate {
    fn record(&self) -> &'static Record {
        Interpolate::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("interpolate", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let sizes = self.sizes(x.shape())?;
        let mut shape = x.shape().clone();
        sizes.iter().enumerate().for_each(|(axis, &size)| shape.set(axis + 2, size));
        shape.count(op)?;
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (op, x) = ("interpolate", inputs[0]);
        let Spec { shape, dtype } = specs[0].clone();
        let ([depth, down, across], from, to, volumes) = self.axes(x.shape())?;
        if let Along::Same(_) = depth {
            let planes = [volumes * from[0], from[1], from[2]];
            return Ok(smallvec![Self::planes(op, x, planes, [down, across], (shape, dtype))?]);
        }
        // Rounded once, after the depth.
        let work = wide(dtype);
        let planes = [volumes * from[0], from[1], from[2]];
        let within = Shape::from([volumes, from[0], to[1] * to[2]]);
        let x = ops::cast(x, work)?;
        let x = Self::planes(op, &x, planes, [down, across], (within, work))?;
        let behind = [volumes, from[0], to[1] * to[2]];
        let still = Along::Same(to[1] * to[2]);
        let y = Self::planes(op, &x, behind, [depth, still], (shape, work))?;
        Ok(smallvec![ops::cast(&y, dtype)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (op, g, shape) = ("interpolate_backward", call.grad(), call.inputs[0].shape());
        let (axes, from, to, volumes) = self.axes(shape)?;
        let [depth, down, across] = axes.map(|axis| axis.transposed());
        call.one(|| {
            let planes = [volumes * from[0], to[1], to[2]];
            if let Along::Same(_) = depth {
                let spec = (shape.clone(), g.dtype());
                return Self::planes(op, g, planes, [down, across], spec);
            }
            let work = wide(g.dtype());
            let within = Shape::from([volumes, from[0], to[1] * to[2]]);
            let behind = [volumes, to[0], to[1] * to[2]];
            let still = Along::Same(to[1] * to[2]);
            let g = ops::cast(g, work)?;
            let g = Self::planes(op, &g, behind, [depth, still], (within, work))?;
            Self::planes(op, &g, planes, [down, across], (shape.clone(), work))
        })
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), call.inputs[0].ndim())
    }
}
