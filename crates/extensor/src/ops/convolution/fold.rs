//! The windows of images side by side, and back.

use super::options::{ConvOptions, Pair};
use super::window::{PARAMS, Window, numbers};
use crate::exec::launch_one;
use crate::exec::unfold::Unfolding;
use crate::ops::batching::{Batch, Batched};
use crate::ops::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, placeholder, spec};
use crate::ops::params::Params;
use crate::ops::record::{Class, Family, Needs, Parameter, Record, signature};
use crate::ops::shape::{bad_parameter, bad_shape, required};
use crate::{DType, Result, Shape, Tensor};
use extensor_derive::method;
use extensor_kernels::conv::Axis;
use smallvec::smallvec;

/// The windows of images side by side: of `[N, C, H, W]` (or `[C, H, W]`) `[N, C·h·w, L]`, for windows of
/// `h` × `w` at `L` positions, in rows. A convolution is a product with these.
///
/// Conventions: outside of the images are zeros.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::tensor;
/// let x = tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]);
/// let y = x.unfold([2, 2], ConvOptions::new())?;
/// assert_eq!(y.shape(), [4, 2]);
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn unfold(x: &Tensor, kernel_size: impl Into<Pair>, options: ConvOptions) -> Result<Tensor> {
    apply_one(&Unfold(Windows::of("unfold", kernel_size.into(), options)?), &[x])
}

/// The gradient of [`unfold`] for an input of `input_shape`: the windows added up where they lie, as by
/// [`fold`].
#[track_caller]
#[extensor_derive::noted]
pub fn unfold_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    kernel_size: impl Into<Pair>,
    options: ConvOptions,
) -> Result<Tensor> {
    let op = Unfold(Windows::of("unfold", kernel_size.into(), options)?);
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// Images of height and width `output_size` that windows are added up to where they lie: of
/// `[N, C·h·w, L]` (or `[C·h·w, L]`) `[N, C, H, W]`. It is the gradient of [`unfold`].
///
/// Conventions: what lies outside of the images is left out.
///
/// ```
/// use extensor::ops::ConvOptions;
/// use extensor::tensor;
/// let windows = tensor([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0], [5.0, 6.0]]);
/// let y = windows.fold([2, 3], [2, 2], ConvOptions::new())?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 4.0, 3.0, 4.0, 10.0, 6.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn fold(
    x: &Tensor,
    output_size: impl Into<Pair>,
    kernel_size: impl Into<Pair>,
    options: ConvOptions,
) -> Result<Tensor> {
    let windows = Windows::of("fold", kernel_size.into(), options)?;
    apply_one(&Fold { size: output_size.into().0, windows }, &[x])
}

/// The gradient of [`fold`] for an input of `input_shape`: the windows, as by [`unfold`].
#[track_caller]
#[extensor_derive::noted]
pub fn fold_backward(
    grad_output: &Tensor,
    input_shape: &[usize],
    output_size: impl Into<Pair>,
    kernel_size: impl Into<Pair>,
    options: ConvOptions,
) -> Result<Tensor> {
    let windows = Windows::of("fold", kernel_size.into(), options)?;
    let op = Fold { size: output_size.into().0, windows };
    let x = placeholder(&Shape::from(input_shape), grad_output.dtype())?;
    let [grad] = backward_of(&op, grad_output, &[&x], grad_output)?;
    Ok(grad)
}

/// Windows over two axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    kernel: [i64; 2],
    window: Window,
}

const KERNEL: Parameter =
    required("kernel_size", "the size of a window: one for both axes, or [height, width]");
const SIZES: [Parameter; 4] = [KERNEL, PARAMS[2], PARAMS[1], PARAMS[0]];

impl Windows {
    fn of(op: &'static str, kernel: Pair, options: ConvOptions) -> Result<Windows> {
        if options.groups != 1 {
            return Err(bad_parameter(
                op,
                "groups",
                "1: windows are of each channel",
                options.groups,
            ));
        }
        Ok(Windows { kernel: kernel.0, window: options.window(op, 2)? })
    }

    fn named(op: &'static str, params: &Params) -> Result<Windows> {
        if params.optional_ints(op, "kernel_size")?.is_none() {
            return Err(bad_parameter(op, "kernel_size", "one number or two", "None"));
        }
        let [_, y, x] = numbers(params, op, 2, "kernel_size", 1)?;
        Ok(Windows { kernel: [y, x], window: Window::named(op, 2, params)? })
    }

    /// The axes of images of these sizes.
    fn over(&self, [h, w]: [usize; 2]) -> Result<[Axis; 2]> {
        let Window { op, stride, padding, dilation, .. } = self.window;
        let two = |parameter: &'static str, given: [i64; 2], least: i64| {
            let sizes = given.map(|size| usize::try_from(size).ok().filter(|_| size >= least));
            match sizes {
                [Some(y), Some(x)] => Ok([y, x]),
                _ => {
                    Err(bad_parameter(op, parameter, format!("numbers of at least {least}"), given))
                }
            }
        };
        let last = |all: [i64; 3]| [all[1], all[2]];
        let kernel = two("kernel_size", self.kernel, 1)?;
        let stride = two("stride", last(stride), 1)?;
        let padding = two("padding", last(padding), 0)?;
        let dilation = two("dilation", last(dilation), 1)?;
        let axis = |i: usize, size: usize| {
            let axis = Axis::over(size, kernel[i], stride[i], padding[i], dilation[i]);
            axis.filter(|axis| axis.output > 0).ok_or_else(|| {
                let expected = format!("windows that fit into [{h}, {w}] and what is around it");
                bad_parameter(op, "kernel_size", expected, self.kernel)
            })
        };
        Ok([axis(0, h)?, axis(1, w)?])
    }
}

/// The shape of the windows of some images.
fn unfolded(
    op: &'static str,
    before: &[usize],
    channels: usize,
    [y, x]: [Axis; 2],
) -> Result<Shape> {
    let too_large = || crate::Error::Overflow { op, shape: Shape::from([y.kernel, x.kernel]) };
    let rows = y.kernel.checked_mul(x.kernel).and_then(|taps| taps.checked_mul(channels));
    let columns = y.output.checked_mul(x.output).ok_or_else(too_large)?;
    let rows = rows.ok_or_else(too_large)?;
    let shape: Shape = before.iter().copied().chain([rows, columns]).collect();
    shape.count(op)?;
    Ok(shape)
}

/// One or the other, of each of the planes.
fn moved(
    op: &'static str,
    x: &Tensor,
    planes: usize,
    axes: [Axis; 2],
    back: bool,
    shape: Shape,
) -> Result<Tensor> {
    let [down, across] = axes;
    let kernel = Unfolding { planes, y: down, x: across, back };
    launch_one(op, &kernel, &[&x.contiguous()?], Spec { shape, dtype: x.dtype() })
}

#[derive(Clone, Debug)]
pub(crate) struct Unfold(Windows);

impl Unfold {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "unfold",
        family: Family::Convolution,
        formula: "y[n, (c, t), p] = x[n, c, p·stride + t·dilation − padding]",
        derivative: "Σ g[n, (c, t), p] over the windows that hold x",
        conventions: "outside of the images are zeros",
        params: &SIZES,
        backward: signature!(unfold_backward(grad_output, shape(x); kernel_size, dilation, padding, stride)),
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| Ok(Box::new(Unfold(Windows::named("unfold", p)?))),
        samples: |s| {
            for (shape, params) in samples() {
                let x = s.normal(&shape);
                s.add([x], params);
            }
            let x = s.normal(&[2, 3, 60, 50]);
            let params = Params::new().with("kernel_size", 3).with("padding", 1);
            s.add_large([x], params, "many numbers");
        },
        errors: |bad| {
            let x = bad.ones(&[1, 2, 4, 5], DType::F64);
            let params = |kernel: [i64; 2]| Params::new().with("kernel_size", kernel);
            let flat = bad.ones(&[4, 5], DType::F64);
            bad.add(
                [flat],
                params([2, 2]),
                "x has shape [4, 5], expected [N, C, H, W] or [C, H, W]",
            );
            let ints = bad.ones(&[1, 2, 4, 5], DType::I64);
            bad.add([ints], params([2, 2]), "x has dtype i64, expected a float type");
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            add(params([0, 2]), "kernel_size is [0, 2], expected numbers of at least 1");
            add(params([5, 2]), "kernel_size is [5, 2], expected windows that fit into [4, 5]");
            add(
                params([2, 2]).with("stride", 0),
                "stride is [0, 0], expected numbers of at least 1",
            );
            add(
                params([2, 2]).with("padding", -1),
                "padding is [-1, -1], expected numbers of at least 0",
            );
            add(Params::new(), "kernel_size is \"None\", expected one number or two");
        },
        ..Record::BLANK
    };
}

/// Shapes of images with the parameters of windows.
fn samples() -> Vec<(Vec<usize>, Params)> {
    let with = |kernel: [i64; 2], stride: [i64; 2], padding: [i64; 2], dilation: [i64; 2]| {
        let params = Params::new().with("kernel_size", kernel).with("stride", stride);
        params.with("padding", padding).with("dilation", dilation)
    };
    vec![
        (vec![2, 3, 4, 5], Params::new().with("kernel_size", 2)),
        (vec![3, 4, 4], with([3, 2], [1, 2], [0, 1], [1, 1])),
        (vec![1, 2, 5, 6], with([2, 3], [2, 1], [1, 2], [2, 1])),
        (vec![1, 2, 6, 6], with([2, 2], [3, 3], [0, 0], [1, 1])),
        (vec![1, 1, 3, 4], with([1, 1], [1, 1], [0, 0], [1, 1])),
        (vec![0, 2, 3, 4], with([2, 2], [1, 1], [0, 0], [1, 1])),
    ]
}

impl Operation for Unfold {
    fn record(&self) -> &'static Record {
        Unfold::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("unfold", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let (3 | 4, [before @ .., c, h, w]) = (x.ndim(), &x.shape()[..]) else {
            return Err(bad_shape(op, "x", "[N, C, H, W] or [C, H, W]", x.shape()));
        };
        let axes = self.0.over([*h, *w])?;
        Ok(spec(unfolded(op, before, *c, axes)?, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let (x, shape) = (inputs[0], specs[0].shape.clone());
        let (planes, size) = planes(x.shape());
        Ok(smallvec![moved("unfold", x, planes, self.0.over(size)?, false, shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (op, shape) = ("unfold_backward", call.inputs[0].shape());
        let (planes, size) = planes(shape);
        call.one(|| moved(op, call.grad(), planes, self.0.over(size)?, true, shape.clone()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), 4)
    }
}

/// How many planes images of this shape have, and their size.
fn planes(shape: &Shape) -> (usize, [usize; 2]) {
    match shape[..] {
        [ref before @ .., h, w] => (before.iter().product(), [h, w]),
        _ => (0, [0; 2]),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Fold {
    size: [i64; 2],
    windows: Windows,
}

impl Fold {
    pub(crate) const RECORD: &'static Record = &Record {
        name: "fold",
        family: Family::Convolution,
        formula: "y[n, c, p·stride + t·dilation − padding] = Σ x[n, (c, t), p]",
        derivative: "g[n, c, p·stride + t·dilation − padding]",
        conventions: "what lies outside of the images is left out",
        params: &[
            required("output_size", "the size of an image: one for both axes, or [height, width]"),
            SIZES[0],
            SIZES[1],
            SIZES[2],
            SIZES[3],
        ],
        backward: signature!(fold_backward(grad_output, shape(x); output_size, kernel_size, dilation, padding, stride)),
        class: Class::Linear,
        needs: Needs::Shapes,
        build: |p| {
            let op = "fold";
            if p.optional_ints(op, "output_size")?.is_none() {
                return Err(bad_parameter(op, "output_size", "one number or two", "None"));
            }
            let [_, y, x] = numbers(p, op, 2, "output_size", 1)?;
            Ok(Box::new(Fold { size: [y, x], windows: Windows::named(op, p)? }))
        },
        samples: |s| {
            for (shape, params) in samples() {
                let [before @ .., c, h, w] = &shape[..] else { continue };
                let axes =
                    Windows::named("fold", &params).and_then(|windows| windows.over([*h, *w]));
                let windows = axes.and_then(|axes| unfolded("fold", before, *c, axes));
                let Ok(windows) = windows else { continue };
                let x = s.normal(&windows);
                s.add([x], params.with("output_size", [*h as i64, *w as i64]));
            }
            let x = s.normal(&[2, 27, 3000]);
            let params = Params::new().with("output_size", [60, 50]).with("kernel_size", 3);
            s.add_large([x], params.with("padding", 1), "many numbers");
        },
        errors: |bad| {
            let x = bad.ones(&[1, 8, 6], DType::F64);
            let params =
                |size: [i64; 2]| Params::new().with("output_size", size).with("kernel_size", 2);
            let ints = bad.ones(&[1, 8, 6], DType::I64);
            bad.add([ints], params([3, 4]), "x has dtype i64, expected a float type");
            let mut add = |params: Params, message| bad.add([x.clone()], params, message);
            add(params([3, 5]), "x has shape [1, 8, 6], expected [N, C·4, 8] or [C·4, 8]");
            add(params([3, -4]), "output_size is [3, -4], expected numbers of at least 1");
            add(params([1, 4]), "kernel_size is [2, 2], expected windows that fit into [1, 4]");
            add(Params::new().with("kernel_size", 2), "output_size is \"None\"");
            let odd = bad.ones(&[7, 6], DType::F64);
            bad.add([odd], params([3, 4]), "x has shape [7, 6], expected [N, C·4, 6] or [C·4, 6]");
        },
        ..Record::BLANK
    };

    /// The axes of the images.
    fn axes(&self) -> Result<[Axis; 2]> {
        match self.size.map(usize::try_from) {
            [Ok(h @ 1..), Ok(w @ 1..)] => self.windows.over([h, w]),
            _ => Err(bad_parameter("fold", "output_size", "numbers of at least 1", self.size)),
        }
    }
}

impl Operation for Fold {
    fn record(&self) -> &'static Record {
        Fold::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (op, x) = ("fold", inputs[0]);
        x.dtype().expect_float(op, "x")?;
        let [y, across] = self.axes()?;
        let taps = y.kernel.saturating_mul(across.kernel);
        let positions = y.output.saturating_mul(across.output);
        let (2 | 3, [before @ .., rows, columns]) = (x.ndim(), &x.shape()[..]) else {
            let expected = format!("[N, C·{taps}, {positions}] or [C·{taps}, {positions}]");
            return Err(bad_shape(op, "x", expected, x.shape()));
        };
        if !rows.is_multiple_of(taps) || *columns != positions {
            let expected = format!("[N, C·{taps}, {positions}] or [C·{taps}, {positions}]");
            return Err(bad_shape(op, "x", expected, x.shape()));
        }
        let sizes = [rows / taps, y.input, across.input];
        let shape: Shape = before.iter().copied().chain(sizes).collect();
        shape.count(op)?;
        Ok(spec(shape, x.dtype()))
    }
    fn forward(&self, inputs: &[&Tensor], specs: Specs) -> Result<Outputs> {
        let shape = specs[0].shape.clone();
        let (planes, _) = planes(&shape);
        Ok(smallvec![moved("fold", inputs[0], planes, self.axes()?, true, shape)?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let (g, shape) = (call.grad(), call.inputs[0].shape());
        let (planes, _) = planes(g.shape());
        call.one(|| moved("fold_backward", g, planes, self.axes()?, false, shape.clone()))
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.images(self.clone(), 3)
    }
}
