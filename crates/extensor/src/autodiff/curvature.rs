//! Second derivatives without the whole Hessian: its diagonal and trace, exactly or by probing; products
//! with the curvature of a model; a penalty on gradients.
//!
//! All of it is made of the transformations beside it, and is differentiable like them.

use super::transform::{basis, grad, hvp, jvp, linearize, vjp};
use super::tree::{Tree, map, map_parameters, parameters};
use crate::{DType, Error, Key, Result, Tensor, ops};

/// The diagonal of the Hessian of a function whose result is one number: the second derivative with
/// respect to each element of the arguments, in their structure. [Buffers](super::Path::is_buffer)
/// stay.
///
/// It takes as many products with the Hessian as there are elements; [`hessian_diagonal_probed`]
/// estimates it from a few.
///
/// ```
/// use extensor::{autodiff::hessian_diagonal, tensor};
/// let args = (tensor([1.0, 2.0]), tensor(3.0));
/// let (x, y) = hessian_diagonal(|(x, y)| (x * x * x * y).sum(..), &args)?;
/// assert_eq!(x.to_vec::<f64>()?, [18.0, 36.0]);
/// assert_eq!(y.item::<f64>()?, 0.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn hessian_diagonal<A: Tree>(f: impl Fn(&A) -> Result<Tensor>, args: &A) -> Result<A> {
    let (_, along) = linearize(|args| grad(&f, args), args)?;
    let zeros = map(args, Tensor::zeros_like)?;
    let mut leaf = 0;
    map_parameters(args, |x| {
        let at = leaf;
        leaf += 1;
        let mut found = Vec::new();
        for k in 0..x.len() {
            let step = basis(x, k)?;
            let mut seen = 0;
            let tangent = map_parameters(&zeros, |zero| {
                seen += 1;
                Ok(if seen - 1 == at { step.clone() } else { zero.clone() })
            })?;
            let product = along.call(&tangent)?;
            found.push(parameters(&product)[at].multiply(&step)?.sum(..)?);
        }
        if found.is_empty() { x.zeros_like() } else { ops::stack(&found, 0)?.reshape(x.shape()) }
    })
}

/// An estimate of [`hessian_diagonal`] from `probes` products with the Hessian: the mean of `v·Hv`,
/// element by element, for random `v` of ±1 (Bekas, Kokiopoulou and Saad, 2007). It is right on
/// average, and exact where the Hessian is diagonal.
///
/// ```
/// use extensor::{Key, autodiff::hessian_diagonal_probed, tensor};
/// let x = tensor([1.0, 2.0]);
/// let diagonal = hessian_diagonal_probed(|x| (x * x * x).sum(..), &x, Key::new(1), 1)?;
/// assert_eq!(diagonal.to_vec::<f64>()?, [6.0, 12.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn hessian_diagonal_probed<A: Tree>(
    f: impl Fn(&A) -> Result<Tensor>,
    args: &A,
    key: Key,
    probes: usize,
) -> Result<A> {
    if probes == 0 {
        return Err(Error::Parameter {
            op: "hessian_diagonal_probed",
            parameter: "probes",
            expected: "at least 1".into(),
            got: "0".into(),
        });
    }
    let (_, along) = linearize(|args| grad(&f, args), args)?;
    let mut sums: Vec<Tensor> = Vec::new();
    for probe in 0..probes {
        let mut leaf = 0;
        let signs = map_parameters(args, |x| {
            leaf += 1;
            signs(key.fold_in(probe as u64).fold_in(leaf), x)
        })?;
        let product = along.call(&signs)?;
        let products = parameters(&product).into_iter().zip(parameters(&signs));
        for (i, (h, v)) in products.enumerate() {
            let part = h.multiply(v)?;
            match sums.get_mut(i) {
                Some(sum) => *sum = sum.add(&part)?,
                None => sums.push(part),
            }
        }
    }
    let mut sums = sums.iter();
    map_parameters(args, |x| match sums.next() {
        Some(sum) => sum.divide(&Tensor::scalar_of(probes as f64, x.dtype())?),
        None => x.zeros_like(),
    })
}

/// −1 and 1 at random, like `x`.
fn signs(key: Key, x: &Tensor) -> Result<Tensor> {
    let bits = key.integers(x.shape().clone(), 2)?.cast(x.dtype())?;
    let [one, two] = [1.0, 2.0].map(|value| Tensor::scalar_of(value, x.dtype()));
    bits.multiply(&two?)?.subtract(&one?)
}

/// The Laplacian of a function whose result is one number: the sum of the second derivatives with
/// respect to each element of the arguments, which is the trace of the Hessian.
/// [`laplacian_probed`] estimates it.
///
/// ```
/// use extensor::{autodiff::laplacian, tensor};
/// // ln r is harmonic in the plane.
/// let value = laplacian(|x| x.norm(..)?.log(), &tensor([3.0, 4.0]))?;
/// assert!(value.item::<f64>()?.abs() < 1e-15);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn laplacian<A: Tree>(f: impl Fn(&A) -> Result<Tensor>, args: &A) -> Result<Tensor> {
    total(&hessian_diagonal(f, args)?)
}

/// An estimate of [`laplacian`] from `probes` products with the Hessian: the mean of `v·Hv` for random
/// `v` of ±1 (Hutchinson, 1989).
pub fn laplacian_probed<A: Tree>(
    f: impl Fn(&A) -> Result<Tensor>,
    args: &A,
    key: Key,
    probes: usize,
) -> Result<Tensor> {
    total(&hessian_diagonal_probed(f, args, key, probes)?)
}

/// The sum of all parameters' elements.
fn total<A: Tree>(tree: &A) -> Result<Tensor> {
    let mut sum: Option<Tensor> = None;
    for x in parameters(tree) {
        let part = x.sum(..)?;
        sum = Some(match sum {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    sum.map_or_else(|| Tensor::scalar_of(0.0, DType::F64), Ok)
}

/// The product of `tangents` with the Gauss-Newton matrix `Jᵀ·H·J`, where `J` is the derivative of
/// `model` and `H` the Hessian of `loss` at its results. Where the loss is convex the matrix has no
/// negative eigenvalue, which the Hessian of the whole may have.
///
/// ```
/// use extensor::{Tensor, autodiff::gauss_newton_vp, tensor};
/// // model x ↦ x², loss ½y²: J = 2x, H = 1.
/// let loss = |y: &Tensor| (0.5 * (y * y)).sum(..);
/// let v = gauss_newton_vp(|x| x.square(), loss, &tensor([1.0, 3.0]), &tensor([1.0, 1.0]))?;
/// assert_eq!(v.to_vec::<f64>()?, [4.0, 36.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn gauss_newton_vp<A: Tree, B: Tree>(
    model: impl Fn(&A) -> Result<B>,
    loss: impl Fn(&B) -> Result<Tensor>,
    args: &A,
    tangents: &A,
) -> Result<A> {
    let (results, pullback) = vjp(&model, args)?;
    let (_, moved) = jvp(&model, args, tangents)?;
    pullback.call_once(&hvp(loss, &results, &moved)?)
}

/// The product of `tangents` with the Fisher information of a model of classes: `model` gives logits,
/// classes along the last axis, of which each row is a distribution `p`; the matrix is the mean over
/// the rows of `Jᵀ·(diag p − p·pᵀ)·J`.
///
/// It does not depend on labels, and is the Gauss-Newton matrix of a mean cross-entropy.
///
/// ```
/// use extensor::{autodiff::fisher_vp, tensor};
/// // Two classes of equal probability: p(1 − p) = ¼.
/// let v = fisher_vp(|x| Ok(x.clone()), &tensor([[0.0, 0.0]]), &tensor([[1.0, 0.0]]))?;
/// assert_eq!(v.to_vec::<f64>()?, [0.25, -0.25]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn fisher_vp<A: Tree>(
    model: impl Fn(&A) -> Result<Tensor>,
    args: &A,
    tangents: &A,
) -> Result<A> {
    // The Hessian of ln Σ eˣ is diag p − p·pᵀ.
    gauss_newton_vp(model, |logits: &Tensor| logits.logsumexp(-1)?.mean(..), args, tangents)
}

/// The mean over a batch of `(‖∇s‖ − norm)²`, where `∇s` is the gradient of an example's score by the
/// example: what keeps a critic's slope near `norm` (Gulrajani et al., 2017). `critic` gives a score for
/// each example of `x`, `[batch, …]`, and must not mix examples.
///
/// ```
/// use extensor::{autodiff::{grad, gradient_penalty}, tensor};
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let penalty = |w: &_| gradient_penalty(|x| x.matmul(w), &x, 1.0);
/// // The slope of a linear critic is ‖w‖ = 5 everywhere; the penalty itself is differentiated.
/// assert_eq!(penalty(&tensor([3.0, 4.0]))?.item::<f64>()?, 16.0);
/// let dw = grad(penalty, &tensor([3.0, 4.0]))?.to_vec::<f64>()?;
/// assert!((dw[0] - 4.8).abs() < 1e-12 && (dw[1] - 6.4).abs() < 1e-12);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn gradient_penalty(
    critic: impl Fn(&Tensor) -> Result<Tensor>,
    x: &Tensor,
    norm: f64,
) -> Result<Tensor> {
    let slopes = grad(|x| critic(x)?.sum(..), x)?;
    let axes: Vec<usize> = (1..x.ndim()).collect();
    let norms = slopes.norm(&axes)?;
    norms.subtract(&Tensor::scalar_of(norm, norms.dtype())?)?.square()?.mean(..)
}
