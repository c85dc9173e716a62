//! Convolution of planes and of volumes: sums over windows, with weights.
//!
//! There are two kernels. `correlate` computes volumes from the windows of other volumes: the
//! convolution itself, and the gradient for its input, in which the elements of one remainder
//! modulo the stride see the output's gradient through windows that slide by one, so that nothing
//! is stuffed with zeros or scattered. `weight` computes the gradient for the weights. Both are
//! matrix products whose operand of patches is packed from the image and never exists, or loops
//! along rows where there are not enough channels for a product to pay (`Geometry::by_rows`). A
//! transposed convolution is the gradient for the input of a convolution, and its gradients are the
//! other two.
//!
//! A result depends on shapes and numbers only, not on threads or the instruction set, but for `bf16`
//! where there is a unit for it (see [`gemm`](crate::gemm)). Numbers
//! outside the image are zeros that are multiplied like others.

mod correlate;
mod direct;
mod geometry;
mod patches;
#[cfg(test)]
mod tests;
mod weight;

use crate::gemm::Element;
use correlate::{Correlation, Volumes};
pub use geometry::{Axis, Geometry, Lattice};
use half::{bf16, f16};
use std::borrow::Cow;

/// A type whose planes can be convolved: `f32`, `f64`, `f16` or `bf16`.
///
/// Half-precision numbers are multiplied and summed in `f32` and rounded once. The functions are
/// methods so that they are compiled in this crate rather than wherever they are called.
pub trait Convolve: Element {
    /// `y[i, o, p] = bias[o] + Σ weight[o, c, t] · x[i, c, p·stride + t·dilation − padding]`, each
    /// group by itself.
    ///
    /// # Panics
    /// If a slice has not the elements that the geometry says.
    fn forward(
        geometry: &Geometry,
        x: &[Self],
        weight: &[Self],
        bias: Option<&[Self]>,
        y: &mut [Self],
    );

    /// The gradient of [`forward`](Self::forward) for `x`, with `bias` added to each channel: also
    /// the transposed convolution of `grad`.
    ///
    /// # Panics
    /// As for `forward`.
    fn input_gradient(
        geometry: &Geometry,
        grad: &[Self],
        weight: &[Self],
        bias: Option<&[Self]>,
        dx: &mut [Self],
    );

    /// The gradient of [`forward`](Self::forward) for `weight`.
    ///
    /// # Panics
    /// As for `forward`.
    fn weight_gradient(geometry: &Geometry, grad: &[Self], x: &[Self], dweight: &mut [Self]);
}

macro_rules! convolve {
    ($($t:ty),*) => {$(
        impl Convolve for $t {
            fn forward(g: &Geometry, x: &[$t], w: &[$t], bias: Option<&[$t]>, y: &mut [$t]) {
                forward(g, x, w, bias, y);
            }
            fn input_gradient(g: &Geometry, dy: &[$t], w: &[$t], bias: Option<&[$t]>, dx: &mut [$t]) {
                input_gradient(g, dy, w, bias, dx);
            }
            fn weight_gradient(g: &Geometry, dy: &[$t], x: &[$t], dw: &mut [$t]) {
                g.check(x.len(), dw.len(), dy.len());
                weight::gradient(g, dy, x, dw);
            }
        }
    )*};
}

convolve!(f32, f64, f16, bf16);

/// The volumes of a group: of the convolution's input and of its output.
fn volumes(geometry: &Geometry) -> (Volumes, Volumes) {
    let &Geometry { channels, filters, z, y, x, .. } = geometry;
    (
        Volumes { channels, depth: z.input, height: y.input, width: x.input },
        Volumes { channels: filters, depth: z.output, height: y.output, width: x.output },
    )
}

fn forward<T: Element>(
    geometry: &Geometry,
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    y: &mut [T],
) {
    geometry.check(x.len(), weight.len(), y.len());
    let (from, to) = volumes(geometry);
    let lattices = [&geometry.z, &geometry.y, &geometry.x].map(Lattice::forward);
    let weight = Cow::Borrowed(weight);
    Correlation { geometry, from, to, lattices, weight, bias }.run(x, y);
}

fn input_gradient<T: Element>(
    geometry: &Geometry,
    grad: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    dx: &mut [T],
) {
    geometry.check(dx.len(), weight.len(), grad.len());
    let (to, from) = volumes(geometry);
    let lattices = [&geometry.z, &geometry.y, &geometry.x].map(Lattice::backward);
    let weight = Cow::Owned(correlate::exchanged(geometry, &lattices, weight));
    Correlation { geometry, from, to, lattices, weight, bias }.run(grad, dx);
}
