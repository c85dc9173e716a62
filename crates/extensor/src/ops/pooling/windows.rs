//! Which windows there are: the one place where sizes are computed, for forward and backward alike.

use super::{Pool3dOptions, PoolOptions};
use crate::ops::params::Params;
use crate::ops::samples::{Bad, Sample};
use crate::ops::shape::{bad_parameter, bad_shape};
use crate::{DType, Error, Result, Shape};
use extensor_kernels::pool::{Counts, Kind, Planes, Windows};

/// Numbers for depth, height and width; where there are fewer axes, the first mean nothing.
pub(super) type Three = [usize; 3];

/// Numbers that must not be negative, for the last `axes` axes.
pub(super) fn sizes<const N: usize>(
    op: &'static str,
    parameter: &'static str,
    given: [i64; N],
    axes: usize,
) -> Result<Three> {
    if axes == 1 && given[0] != given[N - 1] {
        return Err(bad_parameter(op, parameter, "one number", given));
    }
    let mut found = [0; 3];
    for (found, &given_one) in found.iter_mut().rev().zip(given.iter().rev()) {
        let bad = |_| bad_parameter(op, parameter, "sizes of at least 0", given);
        *found = usize::try_from(given_one).map_err(bad)?;
    }
    Ok(found)
}

/// The same by name: one for all axes, or one for each; nothing if it is not given.
pub(super) fn named(
    op: &'static str,
    parameter: &'static str,
    p: &Params,
    axes: usize,
) -> Result<Option<Three>> {
    let Some(given) = p.optional_ints(op, parameter)? else { return Ok(None) };
    let size = |&size: &i64| usize::try_from(size).ok();
    let found: Option<Vec<usize>> = given.iter().map(size).collect();
    match found.as_deref() {
        Some(&[all]) => Ok(Some([all; 3])),
        Some(found) if found.len() == axes => {
            let mut three = [0; 3];
            three[3 - axes..].copy_from_slice(found);
            Ok(Some(three))
        }
        _ => {
            let expected = ["one size", "one or two sizes", "one or three sizes"][axes - 1];
            Err(bad_parameter(op, parameter, format!("{expected} of at least 0"), given))
        }
    }
}

/// Windows over volumes; over planes or lines, which are volumes of depth and height 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volumes {
    /// How many there are.
    pub count: usize,
    pub depth: Windows,
    pub rows: Windows,
    pub columns: Windows,
}

impl Volumes {
    /// Whether they are planes.
    pub fn is_flat(&self) -> bool {
        self.depth.len == 1 && self.depth.count == 1
    }

    /// The planes, each by itself.
    pub fn planes(&self) -> Planes {
        let count = self.count * self.depth.len;
        Planes { count, rows: self.rows, columns: self.columns }
    }

    /// For the results of the planes: those that lie behind each other, as planes whose columns keep to
    /// themselves.
    pub fn across(&self) -> Planes {
        let columns = Windows::each(self.rows.count * self.columns.count);
        Planes { count: self.count, rows: self.depth, columns }
    }

    /// Numbers of a volume.
    pub fn input(&self) -> usize {
        self.depth.len * self.rows.len * self.columns.len
    }

    /// Windows of a volume.
    pub fn output(&self) -> usize {
        self.depth.count * self.rows.count * self.columns.count
    }

    /// Planes with as many numbers and windows, for what goes by positions alone.
    pub fn listed(&self) -> Planes {
        let rows = Windows {
            len: self.depth.len * self.rows.len,
            count: self.depth.count * self.rows.count,
            kind: Kind::Even,
        };
        Planes { count: self.count, rows, columns: self.columns }
    }

    /// Whether some window of a sample has its largest number twice.
    pub fn tied(&self, sample: &Sample) -> bool {
        let values = sample.inputs[0].to_f64_vec();
        let (height, width) = (self.rows.len, self.columns.len);
        values.chunks(self.input().max(1)).any(|volume| {
            (0..self.output()).any(|window| {
                let places = |axis: &Windows, window: usize| {
                    let (range, _) = axis.get(window);
                    range.step_by(axis.dilation())
                };
                let across = self.columns.count;
                let column = window % across;
                let row = window / across % self.rows.count;
                let behind = window / across / self.rows.count;
                let mut inside = Vec::new();
                for z in places(&self.depth, behind) {
                    for y in places(&self.rows, row) {
                        let line = &volume[(z * height + y) * width..];
                        inside.extend(places(&self.columns, column).map(|x| line[x]));
                    }
                }
                let most = inside.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
                inside.iter().filter(|x| **x == most).count() > 1
            })
        })
    }
}

/// The sizes of the volumes of a tensor with one or two axes before its last `axes`, all of which must
/// hold numbers.
fn volume(op: &'static str, shape: &Shape, axes: usize) -> Result<Three> {
    let before = shape.len().wrapping_sub(axes);
    if !matches!(before, 1 | 2) || shape[before..].contains(&0) {
        let expected = [
            "[N, C, L] or [C, L], with L at least 1",
            "[N, C, H, W] or [C, H, W], with H and W at least 1",
            "[N, C, D, H, W] or [C, D, H, W], with D, H and W at least 1",
        ];
        return Err(bad_shape(op, "x", expected[axes - 1], shape));
    }
    let mut found = [1; 3];
    found[3 - axes..].copy_from_slice(&shape[before..]);
    Ok(found)
}

/// How many volumes there are.
fn count(op: &'static str, shape: &Shape, axes: usize) -> Result<usize> {
    let before: Shape = shape[..shape.len() - axes].into();
    before.count(op)
}

/// The shape of a result with these windows over the last `axes` axes of a tensor of `shape`.
pub(super) fn pooled(op: &'static str, shape: &Shape, of: &Volumes, axes: usize) -> Result<Shape> {
    let mut pooled = shape.clone();
    let counts = [of.depth.count, of.rows.count, of.columns.count];
    for (axis, &count) in counts[3 - axes..].iter().enumerate() {
        pooled.set(shape.len() - axes + axis, count);
    }
    pooled.count(op)?;
    Ok(pooled)
}

/// Windows that slide over the last axes, one to three of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliding {
    pub axes: usize,
    pub kernel: Three,
    pub stride: Three,
    padding: Three,
    dilation: Three,
    /// Whether a last window counts that begins on the axis but ends behind it.
    ceil: bool,
    counts: Counts,
}

/// Which options an operation has besides kernel, stride and padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Maximum,
    Average,
}

macro_rules! from_options {
    ($name:ident, $Options:ident, $n:literal) => {
        /// The windows over this many axes of which numbers may be negative.
        pub fn $name(op: &'static str, axes: usize, of: Of, options: $Options) -> Result<Sliding> {
            let $Options { kernel_size, stride, padding, dilation, .. } = options;
            let kernel = sizes(op, "kernel_size", kernel_size.0, axes)?;
            let stride = stride.map(|stride| sizes(op, "stride", stride.0, axes)).transpose()?;
            let (padded, ceil) = (options.count_include_pad, options.ceil_mode);
            let only = |parameter, expected: &str, got: String| {
                Err(bad_parameter(op, parameter, format!("{expected} has it"), got))
            };
            if of == Of::Average && dilation.0 != [1; $n] {
                return only("dilation", "1: only the largest number", dilation.to_string());
            }
            if of == Of::Maximum && !padded {
                return only("count_include_pad", "true: only an average", padded.to_string());
            }
            if let (Of::Maximum, Some(divisor)) = (of, options.divisor_override) {
                return only("divisor_override", "none: only an average", divisor.to_string());
            }
            Ok(Sliding {
                axes,
                kernel,
                stride: stride.unwrap_or(kernel),
                padding: sizes(op, "padding", padding.0, axes)?,
                dilation: sizes(op, "dilation", dilation.0, axes)?,
                ceil,
                counts: counts(op, padded, options.divisor_override)?,
            })
        }
    };
}

fn counts(op: &'static str, padded: bool, divisor: Option<i64>) -> Result<Counts> {
    match divisor.map(usize::try_from) {
        None if padded => Ok(Counts::Padded),
        None => Ok(Counts::Inside),
        Some(Ok(divisor @ 1..)) => Ok(Counts::Number(divisor)),
        Some(_) => Err(bad_parameter(op, "divisor_override", "at least 1", divisor.unwrap_or(0))),
    }
}

impl Sliding {
    from_options!(from_options, PoolOptions, 2);
    from_options!(from_3d, Pool3dOptions, 3);

    pub fn from_params(op: &'static str, axes: usize, of: Of, p: &Params) -> Result<Sliding> {
        let expected = ["one size", "one or two sizes", "one or three sizes"][axes - 1];
        let missing = || bad_parameter(op, "kernel_size", expected, "None");
        let kernel = named(op, "kernel_size", p, axes)?.ok_or_else(missing)?;
        let stride = named(op, "stride", p, axes)?.unwrap_or(kernel);
        let padding = named(op, "padding", p, axes)?.unwrap_or([0; 3]);
        let (dilation, counts) = match of {
            Of::Maximum => (named(op, "dilation", p, axes)?.unwrap_or([1; 3]), Counts::Padded),
            Of::Average => {
                let padded = p.bool(op, "count_include_pad", true)?;
                ([1; 3], counts(op, padded, p.optional_int(op, "divisor_override")?)?)
            }
        };
        let ceil = p.bool(op, "ceil_mode", false)?;
        Ok(Sliding { axes, kernel, stride, padding, dilation, ceil, counts })
    }

    /// The windows over a tensor of this shape.
    pub fn over(&self, op: &'static str, shape: &Shape) -> Result<Volumes> {
        let Sliding { axes, kernel, stride, padding, dilation, .. } = *self;
        let sizes = volume(op, shape, axes)?;
        let own = 3 - axes..3;
        let given = [("kernel_size", kernel), ("stride", stride), ("dilation", dilation)];
        for (parameter, given) in given {
            let given = &given[own.clone()];
            if given.contains(&0) {
                return Err(bad_parameter(op, parameter, "sizes of at least 1", given));
            }
        }
        let mut reach = kernel;
        for axis in own.clone() {
            let extent = (kernel[axis] - 1).checked_mul(dilation[axis]);
            reach[axis] = extent.and_then(|extent| extent.checked_add(1)).unwrap_or(usize::MAX);
        }
        if own.clone().any(|axis| padding[axis] > reach[axis] / 2) {
            let what = if reach == kernel { "kernel_size" } else { "the reach of a window" };
            let expected = format!("at most half of {what}, {:?}", &reach[own.clone()]);
            return Err(bad_parameter(op, "padding", expected, &padding[own]));
        }
        let axis = |i: usize| {
            if i < own.start {
                return Ok(Windows::one());
            }
            let (len, reach, stride, padding) = (sizes[i], reach[i], stride[i], padding[i]);
            let padded = padding.checked_mul(2).and_then(|p| p.checked_add(len));
            let Some(room) = padded.and_then(|padded| padded.checked_sub(reach)) else {
                let what = ["line", "plane", "volume"][axes - 1];
                let expected =
                    format!("a {what} that holds a window of {:?}", &kernel[own.clone()]);
                return Err(bad_shape(op, "x", expected, shape));
            };
            let mut count = room / stride + 1;
            // One more, if it begins on the axis, or before it.
            if self.ceil && !room.is_multiple_of(stride) && count * stride < len + padding {
                count += 1;
            }
            // What sums are divided by instead is said once, for the last axis.
            let counts = match self.counts {
                Counts::Number(_) if i < 2 => Counts::Number(1),
                counts => counts,
            };
            let (kernel, dilation) = (kernel[i], dilation[i]);
            let kind = Kind::Strided { kernel, stride, padding, dilation, counts };
            let windows = Windows { len, count, kind };
            if dilation > 1 && (0..count).any(|window| windows.get(window).0.is_empty()) {
                let expected = "windows each of which holds a number";
                return Err(bad_shape(op, "x", expected, shape));
            }
            Ok(windows)
        };
        let (depth, rows, columns) = (axis(0)?, axis(1)?, axis(2)?);
        Ok(Volumes { count: count(op, shape, axes)?, depth, rows, columns })
    }
}

/// As many windows as are asked for over the last axes, which they cover as evenly as possible.
#[derive(Clone, Copy, Debug)]
pub(super) struct Even {
    pub axes: usize,
    pub size: Three,
}

impl Even {
    pub fn from_params(op: &'static str, axes: usize, p: &Params) -> Result<Even> {
        let expected = ["one size", "one or two sizes", "one or three sizes"][axes - 1];
        let missing = || bad_parameter(op, "output_size", expected, "None");
        Ok(Even { axes, size: named(op, "output_size", p, axes)?.ok_or_else(missing)? })
    }

    /// Adds the calls that every function of such windows refuses.
    pub fn refused(bad: &mut Bad, axes: usize) {
        let shape = &[4, 5, 6, 7][..axes + 1];
        let (x, flat) = (bad.ones(shape, DType::F64), bad.ones(&shape[1..], DType::F64));
        let given = |size: &[i64]| Params::new().with("output_size", size);
        let [dims, sizes] = match axes {
            1 => ["x has shape [5], expected [N, C, L]", "expected one size of at least 0"],
            2 => ["x has shape [5, 6], expected [N, C, H, W]", "one or two sizes of at least 0"],
            _ => ["x has shape [5, 6, 7], expected [N, C, D, H, W]", "one or three sizes of at"],
        };
        bad.add([flat], given(&[2]), dims);
        let ints = bad.ones(shape, DType::I64);
        bad.add([ints], given(&[2]), "x has dtype i64, expected a float type");
        let mut add = |params: Params, message| bad.add([x.clone()], params, message);
        add(Params::new(), "output_size is \"None\", expected one");
        add(given(&[-1]), "output_size is [-1], expected one");
        add(given(&vec![-1; axes]), sizes);
        add(given(&[2; 4]), sizes);
        add(given(&[i64::MAX]), "more elements than memory can address");
    }

    /// The windows over a tensor of this shape.
    pub fn over(&self, op: &'static str, shape: &Shape) -> Result<Volumes> {
        let sizes = volume(op, shape, self.axes)?;
        let axis = |i: usize| {
            if i < 3 - self.axes {
                return Ok(Windows::one());
            }
            let (len, count) = (sizes[i], self.size[i]);
            let overflow = || Error::Overflow { op, shape: Shape::from([len, count]) };
            count.checked_add(1).and_then(|n| n.checked_mul(len)).ok_or_else(overflow)?;
            Ok(Windows { len, count, kind: Kind::Even })
        };
        let (depth, rows, columns) = (axis(0)?, axis(1)?, axis(2)?);
        Ok(Volumes { count: count(op, shape, self.axes)?, depth, rows, columns })
    }
}
