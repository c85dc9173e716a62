//! Sums and maxima over windows, without weights.

pub(super) mod adaptive;
pub(super) mod adaptive_average;
pub(super) mod average;
pub(super) mod maximum;
mod options;
mod windows;

pub use adaptive::*;
pub use adaptive_average::*;
pub use average::*;
pub use maximum::*;
pub use options::{Pool3dOptions, PoolOptions};

use crate::ops::params::Params;
use crate::ops::record::Parameter;
use crate::ops::samples::Bad;
use crate::ops::shape::{optional, required};
use crate::{DType, Error, Result};

/// The parameters of windows that slide over one, two or three axes.
const fn window(axes: usize) -> [Parameter; 3] {
    let [size, step] = match axes {
        1 => ["the size of a window", "from one window to the next"],
        2 => [
            "the size of a window: one for both axes, or [height, width]",
            "from one window to the next: one for both, or [down, right]",
        ],
        _ => [
            "the size of a window: one for all axes, or [depth, height, width]",
            "from one window to the next: one for all axes, or one for each",
        ],
    };
    [
        required("kernel_size", size),
        optional("stride", step, "kernel_size"),
        optional(
            "padding",
            "positions before and after each axis, at most half of the window",
            "0",
        ),
    ]
}

fn no_float<R>(op: &'static str, dtype: DType) -> Result<R> {
    Err(Error::DType { op, argument: "x", expected: "a float type", got: dtype })
}

/// Shapes and windows that pooling is tested with: kernel, stride, padding.
type Case<const N: usize> = (&'static [usize], [i64; N], [i64; N], [i64; N]);
const CASES: [Case<2>; 10] = [
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
const LINES: [Case<1>; 7] = [
    (&[2, 3, 8], [2], [2], [0]),
    (&[2, 3, 7], [3], [2], [1]),
    (&[1, 2, 40], [3], [1], [1]),
    (&[3, 6], [2], [3], [0]),
    (&[1, 1, 1], [1], [1], [0]),
    (&[0, 2, 4], [2], [2], [0]),
    (&[2, 0, 4], [2], [2], [1]),
];
const VOLUMES: [Case<3>; 7] = [
    (&[1, 2, 4, 5, 6], [2, 2, 2], [2, 2, 2], [0, 0, 0]),
    (&[2, 1, 5, 4, 5], [3, 3, 3], [2, 1, 2], [1, 1, 1]),
    (&[2, 3, 4, 5], [2, 1, 3], [1, 2, 1], [1, 0, 1]),
    (&[1, 2, 3, 3, 20], [1, 2, 3], [1, 1, 1], [0, 0, 1]),
    (&[1, 1, 1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0]),
    (&[0, 2, 4, 4, 4], [2, 2, 2], [2, 2, 2], [0, 0, 0]),
    (&[2, 0, 4, 4, 4], [2, 2, 2], [2, 2, 2], [1, 0, 1]),
];

fn params<const N: usize>(kernel: [i64; N], stride: [i64; N], padding: [i64; N]) -> Params {
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

fn bad_lines(bad: &mut Bad) {
    let x = bad.ones(&[1, 2, 5], DType::F64);
    let flat = bad.ones(&[5], DType::F64);
    let ints = bad.ones(&[2, 5], DType::I64);
    let good = params([2], [2], [0]);
    bad.add(
        [flat],
        good.clone(),
        "x has shape [5], expected [N, C, L] or [C, L], with L at least 1",
    );
    bad.add([ints], good, "x has dtype i64, expected a float type");
    let mut add = |params: Params, message| bad.add([x.clone()], params, message);
    add(params([0], [1], [0]), "kernel_size is [0], expected sizes of at least 1");
    add(params([2], [0], [0]), "stride is [0], expected sizes of at least 1");
    add(params([2], [1], [2]), "padding is [2], expected at most half of kernel_size");
    add(params([2], [1], [-1]), "padding is [-1], expected one size of at least 0");
    add(params([7], [1], [0]), "x has shape [1, 2, 5], expected a line that holds a window of [7]");
    add(Params::new(), "kernel_size is \"None\"");
    add(params([2, 2], [1, 1], [0, 0]), "kernel_size is [2, 2], expected one size");
}

fn bad_volumes(bad: &mut Bad) {
    let x = bad.ones(&[1, 2, 3, 4, 5], DType::F64);
    let flat = bad.ones(&[3, 4, 5], DType::F64);
    let none = bad.ones(&[1, 2, 0, 4, 5], DType::F64);
    let ints = bad.ones(&[1, 2, 4, 5], DType::I64);
    let good = params([2; 3], [2; 3], [0; 3]);
    let message = "x has shape [3, 4, 5], expected [N, C, D, H, W] or [C, D, H, W]";
    bad.add([flat], good.clone(), message);
    bad.add([none], good.clone(), "with D, H and W at least 1");
    bad.add([ints], good, "x has dtype i64, expected a float type");
    let mut add = |params: Params, message| bad.add([x.clone()], params, message);
    add(
        params([0, 2, 2], [1; 3], [0; 3]),
        "kernel_size is [0, 2, 2], expected sizes of at least 1",
    );
    add(params([2; 3], [1; 3], [0, 0, 2]), "expected at most half of kernel_size");
    add(params([2; 3], [1; 3], [0, -1, 0]), "expected one or three sizes of at least 0");
    add(params([4, 2, 2], [1; 3], [0; 3]), "expected a volume that holds a window of [4, 2, 2]");
    add(params([i64::MAX, 2, 2], [1; 3], [0; 3]), "expected a volume that holds a window");
    let two = Params::new().with("kernel_size", [2, 3]);
    add(two, "kernel_size is [2, 3], expected one or three sizes");
}
