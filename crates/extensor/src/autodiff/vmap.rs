//! `vmap`: a function of one example, for a batch of them.

use super::batch::{example, expect_examples, whole};
use super::trace::{new_level, unwrap};
use super::tree::{Path, Tree};
use crate::tensor::{Scope, axis_index};
use crate::{Error, Result, Tensor, ops};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt;

/// What `f`, a function of one example, gives for each of the examples that are the first axis of every
/// leaf of `args`, stacked along a first axis of the results: a loop over the examples, as one pass.
/// [`vmap_with`] is for other axes, and for arguments that all examples share.
///
/// ```
/// use extensor::{autodiff::{grad, vmap}, tensor};
/// let (a, b) = (tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 1.0], [0.5, 2.0]]));
/// let y = vmap(|(a, b)| a.dot(b), &(a.clone(), b))?;
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 9.5]);
///
/// // The gradient for each example, of a function of one.
/// let w = tensor([1.0, -1.0]);
/// let each = vmap(|x| grad(|w| x.dot(w)?.square(), &w), &a)?;
/// assert_eq!(each.to_vec::<f64>()?, [-2.0, -4.0, -6.0, -8.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
///
/// It nests with [`grad`](super::grad), [`jvp`](super::jvp), [`hvp`](super::hvp),
/// [`compile`](crate::compile::compile) and itself, in any order. What `f` captures is the same for all
/// examples. Operations are done to all examples by one call where they can say how, and one by one
/// otherwise ([`vmap_explain`] tells).
///
/// Each example draws its own random numbers. A [`Key`](crate::Key) among the arguments is split:
/// example `i` has `key.fold_in(i)`. An operation that takes a key beside an example (dropout) uses
/// `key.fold_in(i)` for example `i`. Numbers drawn from a captured key are the same for all.
pub fn vmap<A: Tree, B: Tree>(f: impl FnOnce(&A) -> Result<B>, args: &A) -> Result<B> {
    vmap_with(f, args, VmapOptions::new())
}

/// [`vmap`] along other axes.
///
/// ```
/// use extensor::{autodiff::{VmapOptions, vmap_with}, tensor};
/// let (x, w) = (tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tensor([10.0, 1.0]));
/// // Each column of x beside the same w.
/// let options = VmapOptions::new().in_axes([Some(1), None]);
/// let y = vmap_with(|(x, w)| x.dot(w), &(x, w), options)?;
/// assert_eq!(y.to_vec::<f64>()?, [14.0, 25.0, 36.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn vmap_with<A: Tree, B: Tree>(
    f: impl FnOnce(&A) -> Result<B>,
    args: &A,
    options: VmapOptions,
) -> Result<B> {
    let VmapOptions { out_axes, .. } = options.clone();
    vmap_to(|args| Ok((f(args)?, out_axes)), args, options)
}

/// [`vmap_with`] of a function that says itself where the axis of examples is in its results, which are
/// known when it has been called.
pub fn vmap_to<A: Tree, B: Tree>(
    f: impl FnOnce(&A) -> Result<(B, MapAxes)>,
    args: &A,
    options: VmapOptions,
) -> Result<B> {
    let level = new_level();
    let axes = options.in_axes.of_leaves("in_axes", args)?;
    let mut size = options.size.map(|size| (size, None));
    let mut axes = axes.into_iter();
    let mut mapped = args.map(&Path::ROOT, &mut |path, x| {
        let Some(axis) = axes.next().flatten() else { return Ok(x.clone()) };
        let place = place("in_axes", path, axis, x, x.ndim())?;
        let count = x.shape()[place];
        match &size {
            Some((all, from)) if *all != count => {
                return Err(differing(*all, from.as_ref(), count, (path, axis)));
            }
            None => {
                expect_examples("vmap", count)?;
                size = Some((count, Some((path.to_string(), axis))));
            }
            Some(_) => {}
        }
        Ok(example(level, moved(x, place, 0)?))
    })?;
    let Some((size, _)) = size else {
        let expected = "an axis for at least one tensor, or size".into();
        return Err(bad("in_axes", expected, "none".into()));
    };
    expect_examples("vmap", size)?;
    let scope = Scope::new(level, size);
    scope.split_keys(&mut mapped)?;
    let (outputs, out_axes) = f(&mapped)?;
    drop(mapped);
    let axes = out_axes.of_leaves("out_axes", &outputs)?;
    let mut axes = axes.into_iter();
    outputs.map(&Path::ROOT, &mut |path, y| {
        let Some(axis) = axes.next().flatten() else {
            return match unwrap(y, level) {
                (value, None) => Ok(value.clone()),
                _ => {
                    let expected = format!("an axis for {path}, which differs between examples");
                    Err(bad("out_axes", expected, "None".into()))
                }
            };
        };
        let place = place("out_axes", path, axis, y, y.ndim() + 1)?;
        moved(&whole(y, level, size)?, 0, place)
    })
}

/// What [`vmap`] gives, and which operations were done to all examples by one call and which one by one.
///
/// ```
/// use extensor::{Tensor, autodiff::{grad, vmap_explain}, tensor};
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
/// let f = |x: &Tensor| grad(|x: &Tensor| x.softmax(-1)?.square()?.sum(..), x);
/// let (_, report) = vmap_explain(f, &x)?;
/// assert!(report.looped().is_empty(), "{report}");
/// assert!(report.to_string().contains("softmax"));
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn vmap_explain<A: Tree, B: Tree>(
    f: impl FnOnce(&A) -> Result<B>,
    args: &A,
) -> Result<(B, VmapReport)> {
    let before = TOLD.with(|told| told.replace(Some(Vec::new())));
    let result = vmap(f, args);
    let told = TOLD.with(|told| told.replace(before)).unwrap_or_default();
    Ok((result?, VmapReport { told }))
}

/// The options of [`vmap_with`].
#[derive(Clone, Debug, Default)]
pub struct VmapOptions {
    /// Which axis of the arguments are the examples.
    pub in_axes: MapAxes,
    /// Where the axis of examples is in the results.
    pub out_axes: MapAxes,
    /// How many examples there are; known from the arguments unless all that differs are keys.
    pub size: Option<usize>,
}

impl VmapOptions {
    /// The first axis of everything.
    pub fn new() -> VmapOptions {
        VmapOptions::default()
    }

    /// Which axis of the arguments are the examples: one for all leaves, or a list with one for each
    /// item of the outermost structure, or for each leaf. `None`: the same for all examples.
    #[must_use]
    pub fn in_axes(self, in_axes: impl Into<MapAxes>) -> VmapOptions {
        VmapOptions { in_axes: in_axes.into(), ..self }
    }

    /// Where the axis of examples is in the results, likewise. `None`: a result that does not differ
    /// between examples, which is returned once.
    #[must_use]
    pub fn out_axes(self, out_axes: impl Into<MapAxes>) -> VmapOptions {
        VmapOptions { out_axes: out_axes.into(), ..self }
    }

    /// How many examples there are, where no argument says so: keys alone are mapped.
    ///
    /// ```
    /// use extensor::{DType, Key, autodiff::{VmapOptions, vmap_with}};
    /// let draw = |key: &Key| key.normal([2], DType::F64);
    /// let three = vmap_with(draw, &Key::new(7), VmapOptions::new().size(3))?;
    /// assert_eq!(three.shape(), [3, 2]);
    /// let second = three.slice(0, 1, 2, 1)?.reshape([2])?;
    /// assert_eq!(second.to_vec::<f64>()?, draw(&Key::new(7).fold_in(1))?.to_vec::<f64>()?);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[must_use]
    pub fn size(self, size: usize) -> VmapOptions {
        VmapOptions { size: Some(size), ..self }
    }
}

/// Which axis of each leaf of a tree are the examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapAxes {
    /// This one of all leaves; none if they are the same for all examples.
    All(Option<i64>),
    /// One for each item of the outermost structure, or for each leaf.
    List(Vec<Option<i64>>),
}

impl Default for MapAxes {
    fn default() -> MapAxes {
        MapAxes::All(Some(0))
    }
}

impl From<i64> for MapAxes {
    fn from(axis: i64) -> MapAxes {
        MapAxes::All(Some(axis))
    }
}

impl From<Option<i64>> for MapAxes {
    fn from(axis: Option<i64>) -> MapAxes {
        MapAxes::All(axis)
    }
}

impl From<Vec<Option<i64>>> for MapAxes {
    fn from(axes: Vec<Option<i64>>) -> MapAxes {
        MapAxes::List(axes)
    }
}

impl<const N: usize> From<[Option<i64>; N]> for MapAxes {
    fn from(axes: [Option<i64>; N]) -> MapAxes {
        MapAxes::List(axes.to_vec())
    }
}

impl<const N: usize> From<[i64; N]> for MapAxes {
    fn from(axes: [i64; N]) -> MapAxes {
        MapAxes::List(axes.map(Some).to_vec())
    }
}

impl MapAxes {
    /// The axis of each leaf.
    fn of_leaves<T: Tree>(&self, parameter: &'static str, tree: &T) -> Result<Vec<Option<i64>>> {
        let mut tops: Vec<String> = Vec::new();
        let mut items = Vec::new();
        tree.visit(&Path::ROOT, &mut |path, _| {
            let top = path.parts().into_iter().next().unwrap_or_default();
            let known = tops.iter().position(|t| *t == top);
            items.push(known.unwrap_or(tops.len()));
            if known.is_none() {
                tops.push(top);
            }
            Ok(())
        })?;
        let list = match self {
            MapAxes::All(axis) => return Ok(vec![*axis; items.len()]),
            MapAxes::List(list) => list,
        };
        if list.len() == tops.len() {
            return Ok(items.into_iter().map(|item| list[item]).collect());
        }
        if list.len() == items.len() {
            return Ok(list.clone());
        }
        // Items without tensors (keys) have a place in the list too.
        let numbers = tops.iter().map(|top| list.get(top.parse::<usize>().ok()?));
        if let Some(axes) = numbers.collect::<Option<Vec<_>>>() {
            return Ok(items.into_iter().map(|item| *axes[item]).collect());
        }
        let (tops, leaves) = (tops.len(), items.len());
        let expected =
            format!("one axis, or {tops} (for each item), or {leaves} (for each tensor)");
        Err(bad(parameter, expected, format!("{} axes", list.len())))
    }
}

fn bad(parameter: &'static str, expected: String, got: String) -> Error {
    Error::Parameter { op: "vmap", parameter, expected, got }
}

/// An axis of a leaf, counted from the front.
fn place(
    parameter: &'static str,
    path: &Path<'_>,
    axis: i64,
    x: &Tensor,
    ndim: usize,
) -> Result<usize> {
    axis_index("vmap", axis, ndim).map_err(|_| {
        let shape = x.shape();
        let expected = match parameter {
            "in_axes" => format!("an axis of {path}, of shape {shape}, or None where it is shared"),
            _ => format!("a place among the axes of {path}, of shape {shape} for an example"),
        };
        bad(parameter, expected, axis.to_string())
    })
}

/// Sizes of two leaves that do not agree.
fn differing(
    all: usize,
    from: Option<&(String, i64)>,
    count: usize,
    (path, axis): (&Path<'_>, i64),
) -> Error {
    let expected = match from {
        Some((name, axis)) => {
            format!("axes of one size: axis {axis} of {name} has {all} examples")
        }
        None => format!("axes of size {all}"),
    };
    bad("in_axes", expected, format!("axis {axis} of {path}, which has {count} examples"))
}

/// The tensor with an axis at another place.
fn moved(x: &Tensor, from: usize, to: usize) -> Result<Tensor> {
    if from == to {
        return Ok(x.clone());
    }
    let mut order: SmallVec<[i64; 6]> = (0..x.ndim() as i64).collect();
    let axis = order.remove(from);
    order.insert(to, axis);
    ops::transpose(x, &order[..])
}

/// What is told of an operation that is done example by example.
pub(super) const LOOP: &str = "a loop";

thread_local! {
    /// What is told of the operations of a function that is being explained.
    static TOLD: RefCell<Option<Vec<Told>>> = const { RefCell::new(None) };
}

/// Tells whoever wants an explanation how an operation, or its backward rule, was done to the examples.
pub(super) fn tell(op: &'static str, how: &'static str, backward: bool) {
    TOLD.with(|told| {
        // Nobody else borrows it: nothing is called while it is.
        if let Ok(mut told) = told.try_borrow_mut()
            && let Some(told) = told.as_mut()
        {
            let same = |t: &&mut Told| t.op == op && t.how == how && t.backward == backward;
            match told.iter_mut().find(same) {
                Some(known) => known.count += 1,
                None => told.push(Told { op, how, backward, count: 1 }),
            }
        }
    });
}

/// How an operation was done to examples.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    op: &'static str,
    how: &'static str,
    backward: bool,
    count: usize,
}

/// How the operations of a function were done to the examples of a batch: see [`vmap_explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmapReport {
    told: Vec<Told>,
}

impl VmapReport {
    /// The operations that were done one example after the other, or whose gradients were.
    pub fn looped(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for told in self.told.iter().filter(|told| told.how == LOOP) {
            if !names.contains(&told.op) {
                names.push(told.op);
            }
        }
        names
    }
}

impl fmt::Display for VmapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Told { op, how, backward, count } in &self.told {
            let what = if *backward { format!("gradient of {op}") } else { (*op).to_string() };
            let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
            writeln!(f, "{what:<32} {how}{times}")?;
        }
        Ok(())
    }
}
