//! The transformations: functions that differentiate functions.

use super::node::{Node, Walk};
use super::trace::{Mark, Traced, new_level, unwrap};
use super::tree::{Path, Tree, leaves, map};
use crate::tensor::{expect_room, with_room};
use crate::{DType, Error, Result, Shape, Tensor, ops};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// The results of a function at `args`, and its pullback there: the linear map from gradients of the
/// results to gradients of the arguments.
///
/// ```
/// use extensor::ops::multiply;
/// use extensor::{autodiff::vjp, tensor};
/// let x = tensor([1.0, 2.0]);
/// let (y, pullback) = vjp(|x| multiply(x, x), &x)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 4.0]);
/// let dx = pullback.call(&tensor([1.0, 10.0]))?;
/// assert_eq!(dx.to_vec::<f64>()?, [2.0, 40.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn vjp<A: Tree, B: Tree>(
    f: impl FnOnce(&A) -> Result<B>,
    args: &A,
) -> Result<(B, Pullback<A, B>)> {
    let (outputs, pullback, ()) = vjp_with_aux(|args| Ok((f(args)?, ())), args)?;
    Ok((outputs, pullback))
}

/// [`vjp`] of a function that returns something besides its results, which is not differentiated.
pub fn vjp_with_aux<A: Tree, B: Tree, X: Tree>(
    f: impl FnOnce(&A) -> Result<(B, X)>,
    args: &A,
) -> Result<(B, Pullback<A, B>, X)> {
    let (traced, level, arguments) = trace_arguments("vjp", args)?;
    let (outputs, aux) = f(&traced)?;
    drop(traced);
    let mut roots = Vec::new();
    let outputs = map(&outputs, |y| {
        let (value, mark) = unwrap(y, level);
        roots.push(match mark {
            Some(Mark::Reverse { node, output }) => Some((node.clone(), *output)),
            _ => None,
        });
        Ok(value.clone())
    })?;
    let aux = map(&aux, |x| Ok(unwrap(x, level).0.clone()))?;
    let args = map(args, |x| Tensor::constant(0.0, x.shape(), x.dtype()))?;
    let outline = map(&outputs, |y| Tensor::constant(0.0, y.shape(), y.dtype()))?;
    Ok((outputs, Pullback { level, args, arguments, roots, outline }, aux))
}

/// The linear map from gradients of a function's results to gradients of its arguments, at the point
/// at which [`vjp`] was called. It can be called any number of times, from any thread.
pub struct Pullback<A, B> {
    /// The level that the function was traced at, which is over.
    level: u64,
    /// The arguments' structure, filled with zeros that take no memory.
    args: A,
    /// The numbers of the arguments' nodes; buffers have none.
    arguments: Vec<Option<u64>>,
    roots: Vec<Option<(Arc<Node>, usize)>>,
    /// The results' structure.
    outline: B,
}

impl<A: Tree, B: Tree> Pullback<A, B> {
    /// The gradients of the arguments.
    pub fn call(&self, cotangents: &B) -> Result<A> {
        let walk = self.start(cotangents)?;
        self.finish(walk)
    }

    /// Like [`call`](Self::call), for the last time: what the function saved is freed as soon as it
    /// has been used.
    pub fn call_once(mut self, cotangents: &B) -> Result<A> {
        let walk = self.start(cotangents)?;
        self.roots.clear();
        self.finish(walk)
    }

    /// The names of the arguments that the results do not depend on.
    pub fn unused(&self) -> Result<Vec<String>> {
        let ones = map(&self.outline, Tensor::ones_like)?;
        let found = self.start(&ones)?.finish()?;
        let mut names = Vec::new();
        let mut ids = self.arguments.iter();
        self.args.visit(&Path::ROOT, &mut |path, _| {
            if ids.next().copied().flatten().is_some_and(|id| !found.contains_key(&id)) {
                names.push(path.to_string());
            }
            Ok(())
        })?;
        Ok(names)
    }

    fn start(&self, cotangents: &B) -> Result<Walk> {
        let (wanted, given) = (leaves(&self.outline), leaves(cotangents));
        if wanted.len() != given.len() {
            let (expected, got) = (wanted.len().to_string(), given.len().to_string());
            let parameter = "number of gradients";
            return Err(Error::Parameter { op: "vjp", parameter, expected, got });
        }
        let mut walk = Walk::default();
        for ((y, grad), root) in wanted.iter().zip(given).zip(&self.roots) {
            fits("vjp", "the results' gradient", grad, y)?;
            if let Some((node, output)) = root {
                walk.add(node.clone(), *output, grad.clone())?;
            }
        }
        Ok(walk)
    }

    /// Like [`call_once`](Self::call_once), telling `ready` of each leaf that is a parameter, by its number among
    /// all leaves, once its gradient is known: most while the others' are still being computed.
    fn call_once_with(mut self, cotangents: &B, ready: &mut Ready<'_>) -> Result<A> {
        let walk = self.start(cotangents)?;
        self.roots.clear();
        let numbers = self.arguments.iter().enumerate();
        let mut left: BTreeMap<u64, usize> =
            numbers.filter_map(|(i, id)| Some(((*id)?, i))).collect();
        let found = walk.finish_with(&mut |id, grad| match left.remove(&id) {
            Some(i) => ready(i, unwrap(grad, self.level).0),
            None => Ok(()),
        })?;
        let grads = self.collect(found)?;
        let known = leaves(&grads);
        left.into_values().try_for_each(|i| ready(i, known[i]))?;
        drop(known);
        Ok(grads)
    }

    fn finish(&self, walk: Walk) -> Result<A> {
        self.collect(walk.finish()?)
    }

    fn collect(&self, mut found: BTreeMap<u64, Tensor>) -> Result<A> {
        let mut ids = self.arguments.iter();
        map(&self.args, |zeros| {
            let grad = ids.next().copied().flatten().and_then(|id| found.remove(&id));
            // What a function captured may have been traced with it and have left its mark.
            Ok(grad.map_or_else(|| zeros.clone(), |grad| unwrap(&grad, self.level).0.clone()))
        })
    }
}

/// An error unless `x` has the shape and dtype of `like`.
fn fits(op: &'static str, argument: &'static str, x: &Tensor, like: &Tensor) -> Result<()> {
    if x.shape() != like.shape() {
        let (expected, got) = (like.shape().to_string(), x.shape().clone());
        return Err(Error::Shape { op, argument, expected, got });
    }
    if x.dtype() != like.dtype() {
        let (expected, got) = (like.dtype().name(), x.dtype());
        return Err(Error::DType { op, argument, expected, got });
    }
    Ok(())
}

/// The arguments traced at a new level in reverse mode, all but buffers, and the numbers of their
/// nodes.
fn trace_arguments<A: Tree>(op: &'static str, args: &A) -> Result<(A, u64, Vec<Option<u64>>)> {
    let level = new_level();
    let mut arguments = Vec::new();
    let traced = args.map(&Path::ROOT, &mut |path, x| {
        if path.is_buffer() {
            arguments.push(None);
            return Ok(x.clone());
        }
        expect_float(op, path, x)?;
        let node = Node::new(None);
        arguments.push(Some(node.id));
        let mark = Mark::Reverse { node, output: 0 };
        Ok(Tensor::from_traced(Traced { level, value: x.clone(), mark }))
    })?;
    Ok((traced, level, arguments))
}

fn expect_float(op: &'static str, path: &Path<'_>, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    let (argument, reason) = (path.to_string(), "it is not of a float dtype");
    Err(Error::NotDifferentiable { op, argument, reason })
}

/// The gradient of a function with one number as its result.
///
/// ```
/// use extensor::ops::sum;
/// use extensor::{autodiff::grad, tensor};
/// let x = tensor([1.0, 2.0, 3.0]);
/// let dx = grad(|x| sum(&(x * x), ..), &x)?;
/// assert_eq!(dx.to_vec::<f64>()?, [2.0, 4.0, 6.0]);
///
/// // Of any order: the third derivative of x⁴ is 24x.
/// let cube = |x: &_| grad(|x| grad(|x| grad(|x| Ok(x * x * x * x), x), x), x);
/// assert_eq!(cube(&tensor(2.0))?.item::<f64>()?, 48.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn grad<A: Tree>(f: impl FnOnce(&A) -> Result<Tensor>, args: &A) -> Result<A> {
    Ok(value_and_grad(f, args)?.1)
}

/// The value and the gradient of a function with one number as its result.
///
/// ```
/// use extensor::ops::sum;
/// use extensor::{autodiff::value_and_grad, tensor};
/// let model = (tensor([1.0, 2.0]), tensor(0.5)); // any tree: a tuple, a vector, a struct, …
/// let (loss, grads) = value_and_grad(|(w, b)| sum(&(w * b), ..), &model)?;
/// assert_eq!(loss.item::<f64>()?, 1.5);
/// assert_eq!(grads.0.to_vec::<f64>()?, [0.5, 0.5]);
/// assert_eq!(grads.1.item::<f64>()?, 3.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn value_and_grad<A: Tree>(
    f: impl FnOnce(&A) -> Result<Tensor>,
    args: &A,
) -> Result<(Tensor, A)> {
    let (value, grads, ()) = value_and_grad_with_aux(|args| Ok((f(args)?, ())), args)?;
    Ok((value, grads))
}

/// [`value_and_grad`] of a function that returns something besides its value, which is not
/// differentiated.
pub fn value_and_grad_with_aux<A: Tree, X: Tree>(
    f: impl FnOnce(&A) -> Result<(Tensor, X)>,
    args: &A,
) -> Result<(Tensor, A, X)> {
    let (value, pullback, aux) = vjp_with_aux(f, args)?;
    let grads = pullback.call_once(&one_like(&value)?)?;
    Ok((value, grads, aux))
}

/// What is told of a leaf's gradient: the number of the leaf, and the gradient.
type Ready<'a> = dyn FnMut(usize, &Tensor) -> Result<()> + 'a;

/// [`value_and_grad_with_aux`], telling `ready` of the gradient of each parameter once, as soon as nothing more
/// is added to it: most while the backward pass is still under way, the last layer's first. Parameters are
/// numbered among all leaves; those that the value does not depend on come last, with zeros.
///
/// ```
/// use extensor::ops::{exp, sum};
/// use extensor::{autodiff::value_and_grad_when_ready, tensor};
/// let mut order = Vec::new();
/// let f = |(a, b): &(_, _)| Ok((sum(&(exp(a)? * b), ..)?, ()));
/// let ready = &mut |leaf: usize, _: &_| Ok(order.push(leaf));
/// let (_, grads, ()) = value_and_grad_when_ready(f, &(tensor(0.0), tensor(2.0)), ready)?;
/// assert_eq!(grads.0.item::<f64>()?, 2.0);
/// assert_eq!(order, [1, 0]); // `b` meets the backward pass first
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn value_and_grad_when_ready<A: Tree, X: Tree>(
    f: impl FnOnce(&A) -> Result<(Tensor, X)>,
    args: &A,
    ready: &mut dyn FnMut(usize, &Tensor) -> Result<()>,
) -> Result<(Tensor, A, X)> {
    let (value, pullback, aux) = vjp_with_aux(f, args)?;
    let grads = pullback.call_once_with(&one_like(&value)?, ready)?;
    Ok((value, grads, aux))
}

/// The gradient of a function's value by itself; an error unless the value is one number.
fn one_like(value: &Tensor) -> Result<Tensor> {
    let (op, argument) = ("grad", "the function's result");
    if !value.shape().is_empty() {
        let (expected, got) = ("[], one number".into(), value.shape().clone());
        return Err(Error::Shape { op, argument, expected, got });
    }
    value.dtype().expect_float(op, argument)?;
    Tensor::scalar_of(1.0, value.dtype())
}

/// The results of a function at `args`, and their derivatives along `tangents`.
///
/// ```
/// use extensor::ops::exp;
/// use extensor::{autodiff::jvp, tensor};
/// let (y, dy) = jvp(|x| exp(x), &tensor(0.0), &tensor(3.0))?;
/// assert_eq!((y.item::<f64>()?, dy.item::<f64>()?), (1.0, 3.0));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn jvp<A: Tree, B: Tree>(
    f: impl FnOnce(&A) -> Result<B>,
    args: &A,
    tangents: &A,
) -> Result<(B, B)> {
    let level = new_level();
    let along = leaves(tangents);
    let mut along = along.into_iter();
    let traced = args.map(&Path::ROOT, &mut |path, x| {
        let Some(tangent) = along.next() else {
            let (expected, got) = ("a tangent for each argument".into(), "fewer".into());
            return Err(Error::Inputs { op: "jvp", expected, got });
        };
        if path.is_buffer() {
            return Ok(x.clone());
        }
        expect_float("jvp", path, x)?;
        fits("jvp", "a tangent", tangent, x)?;
        let mark = Mark::Forward { tangent: tangent.clone() };
        Ok(Tensor::from_traced(Traced { level, value: x.clone(), mark }))
    })?;
    let outputs = f(&traced)?;
    let values = map(&outputs, |y| Ok(unwrap(y, level).0.clone()))?;
    let derivatives = map(&outputs, |y| match unwrap(y, level) {
        (_, Some(Mark::Forward { tangent })) => Ok(tangent.clone()),
        (value, _) => Tensor::constant(0.0, value.shape(), value.dtype()),
    })?;
    Ok((values, derivatives))
}

/// The results of a function at `args`, and its derivative there as a linear function: [`jvp`]
/// without computing the function again for each tangent.
pub fn linearize<A: Tree, B: Tree>(
    f: impl FnOnce(&A) -> Result<B>,
    args: &A,
) -> Result<(B, Linearized<A, B>)> {
    let (outputs, pullback) = vjp(f, args)?;
    // The pullback is linear, so its own pullback, anywhere, is the derivative.
    let zeros = map(&outputs, |y| Tensor::constant(0.0, y.shape(), y.dtype()))?;
    let (_, transposed) = vjp(|cotangents| pullback.call(cotangents), &zeros)?;
    Ok((outputs, Linearized { transposed, args: PhantomData }))
}

/// The derivative of a function at a point: see [`linearize`].
pub struct Linearized<A, B> {
    transposed: Pullback<B, A>,
    args: PhantomData<A>,
}

impl<A: Tree, B: Tree> Linearized<A, B> {
    /// The derivatives of the results along `tangents`.
    pub fn call(&self, tangents: &A) -> Result<B> {
        self.transposed.call(tangents)
    }
}

/// The product of the Hessian of a function whose result is one number with `tangents`: the
/// derivative of the gradient along them, forward over reverse.
///
/// ```
/// use extensor::ops::sum;
/// use extensor::{autodiff::hvp, tensor};
/// let x = tensor([1.0, 2.0]);
/// let hv = hvp(|x| sum(&(x * x * x), ..), &x, &tensor([1.0, 1.0]))?;
/// assert_eq!(hv.to_vec::<f64>()?, [6.0, 12.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn hvp<A: Tree>(f: impl Fn(&A) -> Result<Tensor>, args: &A, tangents: &A) -> Result<A> {
    Ok(jvp(|args| grad(&f, args), args, tangents)?.1)
}

/// [`hvp`] by reverse over reverse: the gradient of the gradient's product with `tangents`.
pub fn hvp_reverse<A: Tree>(f: impl Fn(&A) -> Result<Tensor>, args: &A, tangents: &A) -> Result<A> {
    let (_, pullback) = vjp(|args| grad(&f, args), args)?;
    pullback.call_once(tangents)
}

/// The derivative of every element of the result with respect to every element of the argument, of
/// shape `[result…, argument…]`: a row at a time in reverse mode, or a column at a time in forward
/// mode if there are fewer columns.
///
/// ```
/// use extensor::ops::multiply;
/// use extensor::{autodiff::jacobian, tensor};
/// let j = jacobian(|x| multiply(x, x), &tensor([1.0, 2.0]))?;
/// assert_eq!(j.to_vec::<f64>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn jacobian(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let (y, pullback) = vjp(&f, x)?;
    if x.len() < y.len() {
        return jacobian_forward(f, x);
    }
    rows(&pullback, &y, x)
}

/// [`jacobian`] in reverse mode.
pub fn jacobian_reverse(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let (y, pullback) = vjp(f, x)?;
    rows(&pullback, &y, x)
}

fn rows(pullback: &Pullback<Tensor, Tensor>, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let shape: Shape = y.shape().iter().chain(x.shape().iter()).copied().collect();
    if shape.contains(&0) {
        return Tensor::zeros(shape, y.dtype());
    }
    let mut all = room("jacobian", &shape, y.len(), y.dtype())?;
    for k in 0..y.len() {
        all.push(pullback.call(&basis(y, k)?)?);
    }
    ops::reshape(&ops::stack(&all, 0)?, &shape)
}

/// [`jacobian`] in forward mode.
pub fn jacobian_forward(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let mut all = Vec::new();
    for k in 0..x.len() {
        let column = jvp(&f, x, &basis(x, k)?)?.1;
        if k == 0 {
            let shape = column.shape().iter().chain(x.shape().iter()).copied().collect();
            all = room("jacobian", &shape, x.len(), column.dtype())?;
        }
        all.push(column);
    }
    let y = match all.first() {
        Some(first) => first.clone(),
        None => f(x)?,
    };
    let shape: Shape = y.shape().iter().chain(x.shape().iter()).copied().collect();
    if shape.contains(&0) {
        return Tensor::zeros(shape, y.dtype());
    }
    ops::reshape(&ops::stack(&all, -1)?, &shape)
}

/// A list for `count` parts of a tensor of this shape, if there is memory for the parts and for it.
fn room(op: &'static str, shape: &Shape, count: usize, dtype: DType) -> Result<Vec<Tensor>> {
    expect_room(op, shape.count(op)?.saturating_mul(2), dtype.size())?;
    with_room(op, count)
}

/// A tensor like `x` that is 1 at element `k` and 0 elsewhere.
pub(super) fn basis(x: &Tensor, k: usize) -> Result<Tensor> {
    let one = ops::one_hot(&crate::tensor(k as i64), x.len() as i64, x.dtype())?;
    ops::reshape(&one, x.shape())
}

/// The second derivatives of a function whose result is one number, of shape
/// `[argument…, argument…]`.
///
/// ```
/// use extensor::ops::prod;
/// use extensor::{autodiff::hessian, tensor};
/// let h = hessian(|x| prod(x, ..), &tensor([2.0, 3.0]))?;
/// assert_eq!(h.to_vec::<f64>()?, [0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn hessian(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    jacobian_forward(|x| grad(&f, x), x)
}

/// `x`, as a constant: no gradient goes through it.
///
/// ```
/// use extensor::{autodiff::{grad, stop_gradient}, tensor};
/// let dx = grad(|x| Ok(x * &stop_gradient(x)), &tensor(3.0))?;
/// assert_eq!(dx.item::<f64>()?, 3.0);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn stop_gradient(x: &Tensor) -> Tensor {
    x.primal().into_owned()
}
