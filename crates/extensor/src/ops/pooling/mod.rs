//! Sums and maxima over windows, without weights.

pub(super) mod average;
pub(super) mod maximum;

pub use average::*;
pub use maximum::*;

use crate::autodiff::no_leaves;
use crate::ops::Operation;
use crate::ops::Pair;
use crate::ops::batching::{Batch, Batched, View};
use crate::ops::convolution::settings;
use crate::ops::params::Params;
use crate::ops::record::Parameter;
use crate::ops::samples::Bad;
use crate::ops::shape::{bad_parameter, bad_shape, optional, required};
use crate::{DType, Error, Result, Shape};
use extensor_kernels::pool::{Kind, Planes, Windows};

/// The windows that [`maxpool2d`] and [`avgpool2d`] slide over images.
///
/// A window's size alone, one for both axes or `[height, width]`, can be written wherever these are
/// expected: the windows then lie next to each other.
///
/// ```
/// use extensor::ops::PoolOptions;
/// use extensor::{DType, Tensor};
/// let x = Tensor::ones([1, 1, 8, 8], DType::F32)?;
/// assert_eq!(x.maxpool2d(2)?.shape(), [1, 1, 4, 4]);
/// let options = PoolOptions::new(3).stride(2).padding(1);
/// assert_eq!(x.maxpool2d(options)?.shape(), [1, 1, 4, 4]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The size of a window.
    pub kernel_size: Pair,
    /// From one window to the next: the size of a window, unless given.
    pub stride: Option<Pair>,
    /// How far windows reach over the edges: at most half of a window.
    pub padding: Pair,
}

impl PoolOptions {
    /// Windows of this size, next to each other.
    pub fn new(kernel_size: impl Into<Pair>) -> PoolOptions {
        PoolOptions { kernel_size: kernel_size.into(), stride: None, padding: Pair([0; 2]) }
    }

    /// With windows this far apart.
    #[must_use]
    pub fn stride(self, stride: impl Into<Pair>) -> PoolOptions {
        PoolOptions { stride: Some(stride.into()), ..self }
    }

    /// With windows that reach this far over the edges.
    #[must_use]
    pub fn padding(self, padding: impl Into<Pair>) -> PoolOptions {
        PoolOptions { padding: padding.into(), ..self }
    }
}

no_leaves!(
    |x| {
        settings(&[
            ("kernel", x.kernel_size, false),
            ("stride", x.stride.unwrap_or(x.kernel_size), x.stride.is_none()),
            ("padding", x.padding, x.padding == Pair([0; 2])),
        ])
    };
    PoolOptions
);

impl<K> From<K> for PoolOptions
where
    Pair: From<K>,
{
    fn from(kernel_size: K) -> PoolOptions {
        PoolOptions::new(kernel_size)
    }
}

/// The parameters of windows that slide.
const WINDOW: [Parameter; 3] = [
    required("kernel_size", "the size of a window: one for both axes, or [height, width]"),
    optional(
        "stride",
        "from one window to the next: one for both, or [down, right]",
        "kernel_size",
    ),
    optional("padding", "positions before and after each axis, at most half of the window", "0"),
];

/// Numbers that must not be negative.
fn sizes(op: &'static str, parameter: &'static str, Pair(given): Pair) -> Result<[usize; 2]> {
    match given.map(usize::try_from) {
        [Ok(down), Ok(right)] => Ok([down, right]),
        _ => Err(bad_parameter(op, parameter, "sizes of at least 0", given)),
    }
}

/// Windows that slide over the last two axes.
#[derive(Clone, Copy, Debug)]
struct Sliding {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

impl Sliding {
    fn new(kernel: [usize; 2], stride: Option<[usize; 2]>, padding: [usize; 2]) -> Sliding {
        Sliding { kernel, stride: stride.unwrap_or(kernel), padding }
    }

    /// The same from numbers that may be negative.
    fn from_options(op: &'static str, options: PoolOptions) -> Result<Sliding> {
        let PoolOptions { kernel_size, stride, padding } = options;
        let kernel = sizes(op, "kernel_size", kernel_size)?;
        let stride = stride.map(|stride| sizes(op, "stride", stride)).transpose()?;
        Ok(Sliding::new(kernel, stride, sizes(op, "padding", padding)?))
    }

    fn from_params(op: &'static str, p: &Params) -> Result<Sliding> {
        let missing = || bad_parameter(op, "kernel_size", "one or two sizes", "None");
        let kernel = two(op, "kernel_size", p)?.ok_or_else(missing)?;
        let stride = two(op, "stride", p)?;
        let padding = two(op, "padding", p)?.unwrap_or([0, 0]);
        Ok(Sliding::new(kernel, stride, padding))
    }

    /// The windows over a tensor of this shape: the one place where sizes are computed.
    fn over(&self, op: &'static str, shape: &Shape) -> Result<Planes> {
        let Sliding { kernel, stride, padding } = *self;
        let sizes = plane(op, shape)?;
        for (parameter, given) in [("kernel_size", kernel), ("stride", stride)] {
            if given.contains(&0) {
                return Err(bad_parameter(op, parameter, "sizes of at least 1", given));
            }
        }
        if padding[0] > kernel[0] / 2 || padding[1] > kernel[1] / 2 {
            let expected = format!("at most half of kernel_size, {kernel:?}");
            return Err(bad_parameter(op, "padding", expected, padding));
        }
        let axis = |i: usize| {
            let (len, kernel, stride, padding) = (sizes[i], kernel[i], stride[i], padding[i]);
            let padded = padding.checked_mul(2).and_then(|p| p.checked_add(len));
            let Some(room) = padded.and_then(|padded| padded.checked_sub(kernel)) else {
                let [h, w] = self.kernel;
                let expected = format!("a plane that holds a window of [{h}, {w}]");
                return Err(bad_shape(op, "x", expected, shape));
            };
            let kind = Kind::Strided { kernel, stride, padding };
            Ok(Windows { len, count: room / stride + 1, kind })
        };
        let (rows, columns) = (axis(0)?, axis(1)?);
        Ok(Planes { count: planes(op, shape)?, rows, columns })
    }
}

/// One size for both axes or two, if given.
fn two(op: &'static str, parameter: &'static str, p: &Params) -> Result<Option<[usize; 2]>> {
    let Some(given) = p.optional_ints(op, parameter)? else { return Ok(None) };
    let size = |&size: &i64| usize::try_from(size).ok();
    let sizes: Option<Vec<usize>> = given.iter().map(size).collect();
    match sizes.as_deref() {
        Some(&[both]) => Ok(Some([both, both])),
        Some(&[down, right]) => Ok(Some([down, right])),
        _ => Err(bad_parameter(op, parameter, "one or two sizes of at least 0", given)),
    }
}

/// The sizes of the planes of `[N, C, H, W]` or `[C, H, W]`, which must hold numbers.
fn plane(op: &'static str, shape: &Shape) -> Result<[usize; 2]> {
    match shape[..] {
        [.., h, w] if matches!(shape.len(), 3 | 4) && h > 0 && w > 0 => Ok([h, w]),
        _ => {
            let expected = "[N, C, H, W] or [C, H, W], with H and W at least 1";
            Err(bad_shape(op, "x", expected, shape))
        }
    }
}

/// A pooling of a batch of examples: of more images, or of images where there was one.
fn batched(call: &Batch<'_>, op: impl Operation) -> Batched {
    let view = if call.inputs[0].ndim() == 4 { View::merged(0) } else { View::WHOLE };
    call.call(Box::new(op), view, view)
}

/// How many planes there are.
fn planes(op: &'static str, shape: &Shape) -> Result<usize> {
    let before: Shape = shape[..shape.len() - 2].into();
    before.count(op)
}

/// The shape of a result with these windows over a tensor of `shape`.
fn pooled(op: &'static str, shape: &Shape, planes: &Planes) -> Result<Shape> {
    let mut pooled = shape.clone();
    pooled.set(shape.len() - 2, planes.rows.count);
    pooled.set(shape.len() - 1, planes.columns.count);
    pooled.count(op)?;
    Ok(pooled)
}

fn no_float<R>(op: &'static str, dtype: DType) -> Result<R> {
    Err(Error::DType { op, argument: "x", expected: "a float type", got: dtype })
}

/// Shapes and windows that pooling is tested with: kernel, stride, padding.
type Case = (&'static [usize], [i64; 2], [i64; 2], [i64; 2]);
const CASES: [Case; 10] = [
    (&[2, 3, 7, 8], [2, 2], [2, 2], [0, 0]),
    (&[2, 3, 7, 8], [3, 3], [2, 2], [1, 1]),
    (&[1, 2, 5, 6], [3, 2], [1, 2], [1, 0]),
    (&[1, 2, 5, 6], [2, 2], [3, 3], [0, 0]),
    (&[3, 4, 5], [2, 3], [1, 1], [1, 1]),
    (&[2, 4, 40], [3, 3], [1, 1], [1, 1]),
    (&[1, 1, 1, 1], [1, 1], [1, 1], [0, 0]),
    (&[1, 3, 4], [3, 4], [1, 1], [0, 0]),
    (&[0, 2, 4, 4], [2, 2], [2, 2], [0, 0]),
    (&[2, 0, 4, 4], [2, 2], [2, 2], [1, 1]),
];

fn params(kernel: [i64; 2], stride: [i64; 2], padding: [i64; 2]) -> Params {
    let params = Params::new().with("kernel_size", kernel);
    params.with("stride", stride).with("padding", padding)
}

fn bad_windows(bad: &mut Bad) {
    let x = bad.ones(&[1, 2, 4, 5], DType::F64);
    let flat = bad.ones(&[4, 5], DType::F64);
    let ints = bad.ones(&[1, 2, 4, 5], DType::I64);
    let none = bad.ones(&[1, 2, 0, 5], DType::F64);
    let good = params([2, 2], [2, 2], [0, 0]);
    bad.add([flat], good.clone(), "x has shape [4, 5], expected [N, C, H, W] or [C, H, W]");
    bad.add([none], good.clone(), "x has shape [1, 2, 0, 5], expected [N, C, H, W] or [C, H, W]");
    bad.add([ints], good, "x has dtype i64, expected a float type");
    let mut add = |params: Params, message| bad.add([x.clone()], params, message);
    add(params([0, 2], [1, 1], [0, 0]), "kernel_size is [0, 2], expected sizes of at least 1");
    add(params([2, 2], [1, 0], [0, 0]), "stride is [1, 0], expected sizes of at least 1");
    add(params([2, 2], [1, 1], [0, 2]), "padding is [0, 2], expected at most half of kernel_size");
    add(params([2, 2], [1, 1], [-1, 0]), "padding is [-1, 0], expected one or two sizes");
    add(params([7, 2], [1, 1], [1, 0]), "expected a plane that holds a window of [7, 2]");
    let huge = i64::MAX;
    add(params([huge, 2], [1, 1], [0, 0]), "x has shape [1, 2, 4, 5], expected a plane");
    add(Params::new(), "kernel_size is \"None\"");
    let three = Params::new().with("kernel_size", [1, 2, 3]);
    add(three, "kernel_size is [1, 2, 3], expected one or two sizes");
}
