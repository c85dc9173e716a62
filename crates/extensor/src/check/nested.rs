//! Derivatives of any order by any nesting of the two modes.

use crate::autodiff::{jvp, vjp};
use crate::{Result, Tensor};

/// Which modes to nest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// None: the value.
    Value,
    /// Gradients of gradients.
    Reverse,
    /// Derivatives along tangents of derivatives along tangents.
    Forward,
    /// Derivatives along tangents of a gradient.
    Mixed,
}

impl Mode {
    /// The modes in which a derivative of an order can be taken.
    pub fn of(order: usize) -> &'static [Mode] {
        match order {
            0 => &[Mode::Value],
            1 => &[Mode::Reverse, Mode::Forward],
            _ => &[Mode::Reverse, Mode::Forward, Mode::Mixed],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Mode::Value => "value",
            Mode::Reverse => "reverse",
            Mode::Forward => "forward",
            Mode::Mixed => "forward over reverse",
        }
    }

    /// Whether the differentiation that has `inside` more within it is in forward mode.
    fn forward(self, inside: usize) -> bool {
        self == Mode::Forward || self == Mode::Mixed && inside > 0
    }
}

/// The derivative of `f` by the arguments of `sequence`, one after the other, the innermost first.
/// Arguments are columns of numbers, and a row of the result depends on that row of them alone: so
/// the gradient for a cotangent of ones is the derivative in each row.
pub(super) fn nested(
    f: &dyn Fn(&[Tensor]) -> Result<Tensor>,
    args: &[Tensor],
    sequence: &[usize],
    mode: Mode,
) -> Result<Tensor> {
    let Some((&which, inside)) = sequence.split_last() else {
        return f(args);
    };
    let inner = |x: &Tensor| {
        let mut args = args.to_vec();
        args[which] = x.clone();
        nested(f, &args, inside, mode)
    };
    let x = &args[which];
    let ones = Tensor::ones(x.shape().clone(), x.dtype())?;
    if mode.forward(inside.len()) {
        return Ok(jvp(inner, x, &ones)?.1);
    }
    let (_, pullback) = vjp(inner, x)?;
    pullback.call_once(&ones)
}
