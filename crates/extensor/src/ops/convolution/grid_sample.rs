//! Images read at places that a grid names.

use super::Interpolation;
use crate::autodiff::{jvp, stop_gradient, vjp};
use crate::ops::batching::{Batch, Batched, View};
use crate::ops::loss::sample_of;
use crate::ops::operation::{Backward, Forward, Grads, Operation, Outputs, Spec, Specs};
use crate::ops::operation::{apply_one, backward_of, spec};
use crate::ops::options::options;
use crate::ops::params::Params;
use crate::ops::pointwise::{map_real, promote};
use crate::ops::record::{Class, Family, Input, Record, signature};
use crate::ops::reduction::wide;
use crate::ops::samples::{Sample, Sampler};
use crate::ops::shape::{bad_parameter, bad_shape, optional};
use crate::{DType, Result, Shape, Tensor, ops};
use extensor_derive::method;
use extensor_kernels::map::{Formula, Formulas};
use extensor_kernels::number::Real;
use smallvec::{SmallVec, smallvec};

/// What [`grid_sample`] finds beyond the edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The numbers at the edges.
    Border,
    /// The image again, mirrored at its edges.
    Reflection,
}

impl GridPadding {
    fn named(word: &str) -> Result<GridPadding> {
        Ok(match word {
            "zeros" => GridPadding::Zeros,
            "border" => GridPadding::Border,
            "reflection" => GridPadding::Reflection,
            _ => {
                return Err(bad_parameter(OP, "padding_mode", "zeros, border or reflection", word));
            }
        })
    }
}

options! {
    /// The options of [`grid_sample`].
    pub struct GridSampleOptions {
        /// From which neighbours: [`Interpolation::Nearest`], [`Interpolation::Linear`] or, of images,
        /// [`Interpolation::Cubic`].
        mode: Interpolation = Interpolation::Linear,
        /// What is beyond the edges.
        padding_mode: GridPadding = GridPadding::Zeros,
        /// Whether −1 and 1 are the middles of the first and last numbers, and not their outer edges.
        align_corners: bool = false,
    }
}

/// Images `[N, C, H, W]` (volumes `[N, C, D, H, W]`) read at the places that a grid `[N, H′, W′, 2]`
/// (`[N, D′, H′, W′, 3]`) names: `y[n, c, o] = Σ w[k]·x[n, c, k]` over the neighbours `k` of the place
/// `grid[n, o]`, whose numbers are `(x, y)` or `(x, y, z)`, the last axis of the image first, from −1 at
/// one of its edges to 1 at the other. The places and the weights are computed in `f64`.
///
/// Domain: differentiable by the grid off the borders of cells.
///
/// Conventions: at the border of two cells the gradient for the grid is that of the cell behind it, and 0 on
/// and beyond the edges with the paddings border and reflection (but for cubics); nearest rounds halves to
/// even, and its gradient for the grid is 0; a place that is NaN gives NaN, an infinite one what is beyond
/// that edge, and NaN with reflection; of an infinite number that counts nothing comes nothing.
///
/// ```
/// use extensor::ops::{GridPadding, GridSampleOptions};
/// use extensor::tensor;
/// let x = tensor([[[[1.0, 2.0], [3.0, 4.0]]]]);
/// let grid = tensor([[[[0.0, 0.0], [-0.5, -0.5], [1.0, -0.5], [9.0, 9.0]]]]);
/// let y = x.grid_sample(&grid, GridSampleOptions::new())?;
/// assert_eq!(y.to_vec::<f64>()?, [2.5, 1.0, 1.0, 0.0]);
/// let y = x.grid_sample(&grid, GridSampleOptions::new().padding_mode(GridPadding::Border))?;
/// assert_eq!(y.to_vec::<f64>()?, [2.5, 1.0, 2.0, 4.0]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[method]
#[track_caller]
pub fn grid_sample(x: &Tensor, grid: &Tensor, options: GridSampleOptions) -> Result<Tensor> {
    apply_one(&GridSample { options }, &[x, grid])
}

/// The gradients of [`grid_sample`] for `x` and the grid: each element of `grad_output` added to the numbers
/// that it was made of, by their weights; and times the slopes of the weights, summed over the channels.
#[track_caller]
#[extensor_derive::noted]
pub fn grid_sample_backward(
    grad_output: &Tensor,
    x: &Tensor,
    grid: &Tensor,
    options: GridSampleOptions,
) -> Result<(Tensor, Tensor)> {
    let op = GridSample { options };
    let [dx, dgrid] = backward_of(&op, grad_output, &[x, grid], grad_output)?;
    Ok((dx, dgrid))
}

const OP: &str = "grid_sample";

/// Turned back at `low` and at `low + span`, as often as it takes to be between them.
#[inline(always)]
fn folded<R: Real>(x: R, low: f64, span: f64) -> R {
    let (zero, size) = (x.lit(0.0), x.lit(span));
    let from = x - x.lit(low);
    let from = R::select(from.lt(zero), -from, from);
    let turns = (from / size).floor();
    let rest = from - turns * size;
    let half = turns * x.lit(0.5);
    let odd = half.floor().lt(half);
    R::select(odd, size - rest, rest) + x.lit(low)
}

/// Within 0 and `last`, without a slope at these and beyond.
#[inline(always)]
fn held<R: Real>(x: R, last: f64) -> R {
    let (zero, last) = (x.lit(0.0), x.lit(last));
    let inside = R::select(x.lt(last), x, last);
    x.nan_or(R::select(zero.lt(inside), inside, zero))
}

/// How the numbers of an axis, of which there are `size`, go on beyond its ends.
#[derive(Clone, Copy, Debug)]
struct Edge {
    size: usize,
    padding: GridPadding,
    corners: bool,
}

impl Edge {
    /// A place, or a number's index, among the numbers there are.
    #[inline(always)]
    fn inside<R: Real>(self, x: R) -> R {
        let last = self.size as f64 - 1.0;
        let (low, span) = if self.corners { (0.0, last) } else { (-0.5, last + 1.0) };
        match self.padding {
            GridPadding::Reflection if span == 0.0 => x.nan_or(x.lit(0.0)),
            GridPadding::Reflection => held(folded(x, low, span), last),
            _ => held(x, last),
        }
    }
}

/// The place on an axis that a number of the grid names, counted in numbers from the first on.
#[derive(Clone)]
struct Place {
    edge: Edge,
    mode: Interpolation,
}

impl Formula<1> for Place {
    #[inline(always)]
    fn f<R: Real>(&self, [x]: [R; 1]) -> R {
        let size = self.edge.size as f64;
        let (one, half) = (x.lit(1.0), x.lit(0.5));
        let place = if self.edge.corners {
            (x + one) * half * x.lit(size - 1.0)
        } else {
            ((x + one) * x.lit(size) - one) * half
        };
        // Of cubics it is the neighbours that are brought inside; nothing changes far beyond the edges.
        let alone = self.edge.padding == GridPadding::Zeros || self.mode == Interpolation::Cubic;
        let far = alone && self.edge.padding != GridPadding::Reflection;
        let place = match () {
            _ if far => {
                let (low, high) = (x.lit(-3.0), x.lit(size + 2.0));
                let below = R::select(place.lt(high), place, high);
                place.nan_or(R::select(low.lt(below), below, low))
            }
            _ if alone => place,
            _ => self.edge.inside(place),
        };
        if self.mode == Interpolation::Nearest { place.round() } else { place }
    }
}

/// How much a neighbour counts at a place: `taps` says which it is along each axis, from the number at or
/// before the place.
#[derive(Clone)]
struct Weight<const N: usize> {
    taps: [i32; N],
    mode: Interpolation,
}

impl<const N: usize> Formula<N> for Weight<N> {
    #[inline(always)]
    fn f<R: Real>(&self, places: [R; N]) -> R {
        let mut weight = places[0].lit(1.0);
        for (place, tap) in places.into_iter().zip(self.taps) {
            let one = place.lit(1.0);
            let t = place - place.floor();
            weight = weight
                * match (self.mode, tap) {
                    (Interpolation::Linear, 0) => one - t,
                    (Interpolation::Linear, _) => t,
                    (Interpolation::Cubic, -1) => far(t + one),
                    (Interpolation::Cubic, 0) => near(t),
                    (Interpolation::Cubic, 1) => near(one - t),
                    (Interpolation::Cubic, _) => far(one + one - t),
                    _ => place.nan_or(one),
                };
        }
        weight
    }
}

/// Keys' cubic, of slope −¾, up to a distance of 1.
#[inline(always)]
fn near<R: Real>(d: R) -> R {
    let one = d.lit(1.0);
    (one - d) * (one + d * (one - d.lit(1.25) * d))
}

/// And from 1 to 2.
#[inline(always)]
fn far<R: Real>(d: R) -> R {
    let (one, two) = (d.lit(1.0), d.lit(2.0));
    d.lit(-0.75) * (d - one) * (two - d) * (two - d)
}

/// Where in an image, row by row, a neighbour is; behind its end what is not in it.
#[derive(Clone)]
struct Neighbour<const N: usize> {
    taps: [i32; N],
    edges: [Edge; N],
}

impl<const N: usize> Formula<N> for Neighbour<N> {
    #[inline(always)]
    fn f<R: Real>(&self, places: [R; N]) -> R {
        let mut at = places[0].lit(0.0);
        let mut behind = 1.0;
        for edge in self.edges {
            behind *= edge.size as f64;
        }
        let behind = at.lit(behind);
        let mut out = at.lt(at);
        for ((place, tap), edge) in places.into_iter().zip(self.taps).zip(self.edges) {
            let (zero, size) = (place.lit(0.0), place.lit(edge.size as f64));
            let tap = place.floor() + place.lit(f64::from(tap));
            let tap = match edge.padding {
                GridPadding::Zeros => {
                    out = out | tap.lt(zero) | size.le(tap);
                    tap
                }
                _ => edge.inside(tap),
            };
            at = at * size + tap;
        }
        // No number is named by NaN.
        R::select(out | at.is_nan(), behind, at)
    }
}

/// `y + w·x`, where nothing comes of an `x` that counts nothing.
#[derive(Clone)]
struct Counted;

impl Formula<3> for Counted {
    #[inline(always)]
    fn f<R: Real>(&self, [y, w, x]: [R; 3]) -> R {
        y + w.times(x)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GridSample {
    options: GridSampleOptions,
}

/// Places between numbers and the middles between those, away from where the function bends; some are
/// beyond the edges. As a grid.
fn between(s: &mut Sampler, size: &[usize], out: &[usize], corners: bool) -> Tensor {
    let (axes, count) = (size.len(), out.iter().product::<usize>());
    let mut grid = vec![0.0; count * axes];
    for (axis, &size) in size.iter().enumerate() {
        let whole = s.integers(size as u64 + 4, &[count]).to_f64_vec();
        let half = s.integers(2, &[count]).to_f64_vec();
        let rest = s.uniform(0.08, 0.42, &[count]).to_f64_vec();
        let n = size as f64;
        for i in 0..count {
            let place = whole[i] - 2.0 + half[i] / 2.0 + rest[i];
            let found = if corners && size > 1 {
                2.0 * place / (n - 1.0) - 1.0
            } else {
                (2.0 * place + 1.0) / n - 1.0
            };
            grid[i * axes + axes - 1 - axis] = found;
        }
    }
    let mut shape = out.to_vec();
    shape.push(axes);
    sample_of(grid, &shape)
}

impl GridSample {
    pub(crate) const RECORD: &'static Record = &Record {
        name: OP,
        family: Family::Convolution,
        formula: "y[n, c, o] = Σ w[k]·x[n, c, k] over the neighbours k of the place grid[n, o]",
        derivative: "(Σ w[k]·g[n, c, o] over the o of which k is a neighbour, Σ s[k]·x[n, c, k]·g[n, c, o] over c and k, s the slopes of w)",
        domain: "differentiable by the grid off the borders of cells",
        conventions: "at the border of two cells the gradient for the grid is that of the cell behind it, and 0 \
                      on and beyond the edges with the paddings border and reflection (but for cubics); nearest \
                      rounds halves to even, and its gradient for the grid is 0; a place that is NaN gives NaN, \
                      an infinite one what is beyond that edge, and NaN with reflection; of an infinite number \
                      that counts nothing comes nothing",
        inputs: &[Input::new("x"), Input::new("grid")],
        params: &[
            optional("mode", "linear (bilinear, trilinear), nearest, or cubic (bicubic)", "linear"),
            optional(
                "padding_mode",
                "what is beyond the edges: zeros, border, or reflection",
                "zeros",
            ),
            optional(
                "align_corners",
                "whether −1 and 1 are the middles of the first and last numbers",
                "false",
            ),
        ],
        backward: signature!(grid_sample_backward(grad_output, x, grid; mode, padding_mode, align_corners)),
        class: Class::Composite,
        build: |p| {
            Ok(Box::new(GridSample {
                options: GridSampleOptions {
                    mode: Interpolation::named(OP, &p.text(OP, "mode", "linear")?)?,
                    padding_mode: GridPadding::named(&p.text(OP, "padding_mode", "zeros")?)?,
                    align_corners: p.bool(OP, "align_corners", false)?,
                },
            }))
        },
        samples: |s| {
            let params = |mode: &str, padding: &str, corners: bool| {
                let params = Params::new().with("mode", mode).with("padding_mode", padding);
                params.with("align_corners", corners)
            };
            let cases: [(&[usize], &[usize]); 6] = [
                (&[2, 2, 3, 4], &[2, 2, 2]),
                (&[1, 1, 3, 2], &[1, 2, 3]),
                (&[1, 2, 2, 1], &[1, 1, 4]),
                (&[1, 2, 3, 2, 3], &[1, 1, 2, 2]),
                (&[1, 2, 3, 3], &[1, 0, 2]),
                (&[0, 2, 3, 3], &[0, 2, 2]),
            ];
            for mode in ["bilinear", "nearest", "bicubic"] {
                for (k, padding) in ["zeros", "border", "reflection"].into_iter().enumerate() {
                    for (i, (shape, out)) in cases.into_iter().enumerate() {
                        let corners = (i + k) % 2 == 1;
                        // Few of those that are made of many neighbours.
                        let chosen = match mode {
                            "bilinear" => i < 4 || k == 0,
                            "nearest" => i == k || i == 3 && k == 0,
                            _ => i == k || i == 4 && k == 0,
                        };
                        if !chosen {
                            continue;
                        }
                        let inputs = [s.normal(shape), between(s, &shape[2..], out, corners)];
                        s.add(inputs, params(mode, padding, corners));
                    }
                }
            }
            let inputs = [s.normal(&[1, 2, 3, 4]), between(s, &[3, 4], &[1, 2, 2], false)];
            s.add(inputs, Params::new());
            let inputs = [s.normal(&[2, 3, 30, 40]), between(s, &[30, 40], &[2, 70, 50], true)];
            s.add_large(inputs, params("bilinear", "border", true), "many numbers");
            let x = s.normal(&[1, 2, 3, 3]);
            let grid = crate::tensor([[[[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [-2.0, 3.0]]]]);
            for padding in ["zeros", "border", "reflection"] {
                let inputs = [x.clone(), grid.clone()];
                s.add_noted(inputs, params("bilinear", padding, true), "on numbers");
            }
        },
        kinks: GridSample::bends,
        errors: |bad| {
            let x = bad.ones(&[1, 2, 4, 5], DType::F64);
            let grid = bad.ones(&[1, 3, 3, 2], DType::F64);
            let none = Params::new;
            let mut add = |x: &Tensor, grid: &Tensor, params: Params, message| {
                bad.add([x.clone(), grid.clone()], params, message);
            };
            add(&x, &grid, none().with("mode", "area"), "mode is \"area\", expected nearest,");
            let exact = none().with("mode", "nearest-exact");
            add(&x, &grid, exact, "mode is NearestExact, expected nearest, linear or cubic");
            let wrap = none().with("padding_mode", "wrap");
            add(&x, &grid, wrap, "padding_mode is \"wrap\", expected zeros, border or reflection");
            let ones =
                |shape: &[usize], dtype| Tensor::ones(shape, dtype).unwrap_or_else(|_| x.clone());
            let line = ones(&[1, 2, 4], DType::F64);
            add(
                &line,
                &grid,
                none(),
                "x has shape [1, 2, 4], expected [N, C, H, W] or [N, C, D, H, W]",
            );
            let nothing = ones(&[1, 2, 0, 4], DType::F64);
            add(&nothing, &grid, none(), "x has shape [1, 2, 0, 4], expected [N, C, H, W] or");
            let volume = ones(&[1, 2, 3, 4, 5], DType::F64);
            add(&volume, &grid, none(), "grid has shape [1, 3, 3, 2], expected [1, D, H, W, 3]");
            let places = ones(&[1, 2, 2, 2, 3], DType::F64);
            let cubic = none().with("mode", "cubic");
            add(&volume, &places, cubic, "mode is Cubic, expected nearest or linear for volumes");
            let two = ones(&[2, 3, 3, 2], DType::F64);
            add(&x, &two, none(), "grid has shape [2, 3, 3, 2], expected [1, H, W, 2]");
            let three = ones(&[1, 3, 3, 3], DType::F64);
            add(&x, &three, none(), "grid has shape [1, 3, 3, 3], expected [1, H, W, 2]");
            let whole = ones(&[1, 3, 3, 2], DType::I64);
            add(&x, &whole, none(), "grid has dtype i64, expected a float type");
            let ints = ones(&[1, 2, 4, 5], DType::I64);
            add(&ints, &grid, none(), "x has dtype i64, expected a float type");
        },
        ..Record::BLANK
    };

    /// Whether a place is where the function bends or jumps: on a number, or for the nearest half-way between
    /// two; beyond the edges only if something changes there.
    fn bends(sample: &Sample) -> bool {
        let (x, grid) = (sample.inputs[0].shape(), sample.inputs[1].to_f64_vec());
        let word = |name, default: &str| sample.params.text(OP, name, default).unwrap_or_default();
        let corners = sample.params.bool(OP, "align_corners", false).unwrap_or_default();
        let (mode, padding) = (word("mode", "linear"), word("padding_mode", "zeros"));
        let bend = if mode == "nearest" { 0.5 } else { 0.0 };
        // How far behind the first and the last number something still changes.
        let reach = match (&padding[..], &mode[..]) {
            ("reflection", _) => f64::INFINITY,
            ("zeros", "nearest") => 0.5,
            ("zeros", "cubic" | "bicubic") => 2.0,
            ("zeros", _) | (_, "cubic" | "bicubic") => 1.0,
            _ => -bend,
        };
        let axes = x.len() - 2;
        // On each axis of a place: whether something is there, and whether it bends.
        let along = |(i, named): (usize, &f64)| {
            let size = x[axes + 1 - i] as f64;
            let place = if corners {
                (named + 1.0) / 2.0 * (size - 1.0)
            } else {
                ((named + 1.0) * size - 1.0) / 2.0
            };
            let over = (-place).max(place - size + 1.0) - reach;
            let moves = size > 1.0 || padding == "zeros" && !corners;
            let on = (place - bend - (place - bend).round()).abs() < 1e-6;
            (over < -1e-6 || padding != "zeros", moves && on && over < 1e-6)
        };
        grid.chunks_exact(axes).any(|place| {
            let axes: Vec<(bool, bool)> = place.iter().enumerate().map(along).collect();
            let others = |i: usize| axes.iter().enumerate().all(|(k, axis)| k == i || axis.0);
            (0..axes.len()).any(|i| axes[i].1 && others(i))
        })
    }

    fn edges<const N: usize>(self, x: &Tensor) -> [Edge; N] {
        let GridSampleOptions { padding_mode, align_corners, .. } = self.options;
        let edge = |size| Edge { size, padding: padding_mode, corners: align_corners };
        std::array::from_fn(|axis| edge(x.shape()[axis + 2]))
    }

    /// The images at the places of the grid, made of operations.
    fn sampled<const N: usize>(self, x: &Tensor, grid: &Tensor, dtype: DType) -> Result<Tensor> {
        let (mode, work, edges) = (self.options.mode, wide(dtype), self.edges::<N>(x));
        let (n, c) = (x.shape()[0], x.shape()[1]);
        let volume: usize = edges.iter().map(|edge| edge.size).product();
        let out = Shape::from(&grid.shape()[1..=N]);
        let count: usize = out.iter().product();
        // Channels first, and behind each image a zero for all that is not in it.
        let x = ops::reshape(&ops::cast(x, work)?, [n, c, volume])?;
        let x = ops::pad(&ops::transpose(&x, [1, 0, 2])?, [(0, 0), (0, 0), (0, 1)], 0.0)?;
        let x = ops::reshape(&x, [c, n * (volume + 1)])?;
        let images = Tensor::whole_numbers(OP, n, |i| (i * (volume + 1)) as i64)?;
        let images = ops::reshape(&images, [n, 1])?;
        let spec = |dtype| Spec { shape: Shape::from([n, count]), dtype };
        let grid = ops::cast(&ops::reshape(grid, [n, count, N])?, DType::F64)?;
        let mut places: SmallVec<[Tensor; N]> = SmallVec::new();
        for (axis, edge) in edges.into_iter().enumerate() {
            let last = (N - 1 - axis) as i64;
            let named = ops::squeeze(&ops::slice(&grid, 2, last, last + 1, 1)?, 2)?;
            let place = Formulas(Place { edge, mode });
            places.push(map_real(OP, &place, [&named], spec(DType::F64))?);
        }
        let places: [&Tensor; N] = std::array::from_fn(|axis| &places[axis]);
        let fixed = places.map(stop_gradient);
        let along = match mode {
            Interpolation::Linear => 0..2,
            Interpolation::Cubic => -1..3,
            _ => 0..1,
        };
        let each = along.len();
        let mut y: Option<Tensor> = None;
        for k in 0..each.pow(N as u32) {
            let tap =
                |axis: usize| along.start + (k / each.pow((N - 1 - axis) as u32) % each) as i32;
            let taps: [i32; N] = std::array::from_fn(tap);
            let at = Formulas(Neighbour { taps, edges });
            let at = map_real(OP, &at, fixed.each_ref(), spec(DType::F64))?;
            let at = ops::add(&ops::cast(&at, DType::I64)?, &images)?;
            let at = ops::reshape(&at, [n * count])?;
            let weight = Formulas(Weight { taps, mode });
            let weight = map_real(OP, &weight, places, spec(DType::F64))?;
            let weight = ops::cast(&ops::reshape(&weight, [n * count])?, work)?;
            let found = ops::take(&x, &at, 1)?;
            let before = match y {
                Some(y) => y,
                None => Tensor::scalar_of(0.0, work)?,
            };
            let sum = Spec { shape: Shape::from([c, n * count]), dtype: work };
            y = Some(map_real(OP, &Formulas(Counted), [&before, &weight, &found], sum)?);
        }
        let y = y.map_or_else(|| Tensor::zeros([c, n * count], work), Ok)?;
        let y = ops::transpose(&ops::reshape(&y, [c, n, count])?, [1, 0, 2])?;
        let shape: Shape = [n, c].into_iter().chain(out.iter().copied()).collect();
        ops::cast(&ops::reshape(&y, shape)?, dtype)
    }

    fn made(self, x: &Tensor, grid: &Tensor) -> Result<Tensor> {
        let dtype = promote(OP, x, grid)?;
        match x.ndim() {
            4 => self.sampled::<2>(x, grid, dtype),
            _ => self.sampled::<3>(x, grid, dtype),
        }
    }
}

impl Operation for GridSample {
    fn record(&self) -> &'static Record {
        GridSample::RECORD
    }
    fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
        let (x, grid) = (inputs[0], inputs[1]);
        x.dtype().expect_float(OP, "x")?;
        grid.dtype().expect_float(OP, "grid")?;
        let dtype = promote(OP, x, grid)?;
        let axes = x.ndim().wrapping_sub(2);
        if !matches!(axes, 2 | 3) || x.shape()[2..].contains(&0) {
            let expected = "[N, C, H, W] or [N, C, D, H, W] of at least one element along H, W, D";
            return Err(bad_shape(OP, "x", expected, x.shape()));
        }
        match self.options.mode {
            mode @ Interpolation::NearestExact => {
                return Err(bad_parameter(OP, "mode", "nearest, linear or cubic", mode));
            }
            mode @ Interpolation::Cubic if axes == 3 => {
                return Err(bad_parameter(OP, "mode", "nearest or linear for volumes", mode));
            }
            _ => {}
        }
        let places = grid.shape();
        let n = x.shape()[0];
        if places.len() != axes + 2 || places[0] != n || places[axes + 1] != axes {
            let expected = match axes {
                2 => format!("[{n}, H, W, 2]"),
                _ => format!("[{n}, D, H, W, 3]"),
            };
            return Err(bad_shape(OP, "grid", expected, places));
        }
        let shape: Shape = x.shape()[..2].iter().chain(&places[1..=axes]).copied().collect();
        shape.count(OP)?;
        Ok(spec(shape, dtype))
    }
    fn forward(&self, inputs: &[&Tensor], _: Specs) -> Result<Outputs> {
        Ok(smallvec![self.made(inputs[0], inputs[1])?])
    }
    fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
        let [x, grid] = [call.inputs[0], call.inputs[1]];
        let g = call.grad().clone();
        Ok(match *call.wanted {
            [true, true] => {
                let both = (x.clone(), grid.clone());
                let (dx, dgrid) = vjp(|(x, grid)| self.made(x, grid), &both)?.1.call_once(&g)?;
                smallvec![Some(dx), Some(dgrid)]
            }
            [true, false] => {
                let dx = vjp(|x| self.made(x, grid), x)?.1.call_once(&g)?;
                smallvec![Some(dx), None]
            }
            [false, true] => {
                let dgrid = vjp(|grid| self.made(x, grid), grid)?.1.call_once(&g)?;
                smallvec![None, Some(dgrid)]
            }
            _ => smallvec![None, None],
        })
    }
    fn derivative(&self, call: &Forward<'_>) -> Result<Outputs> {
        let [x, grid] = [call.inputs[0], call.inputs[1]];
        let along = match [call.tangents[0], call.tangents[1]] {
            [Some(dx), Some(dgrid)] => {
                let (at, along) = ((x.clone(), grid.clone()), (dx.clone(), dgrid.clone()));
                jvp(|(x, grid)| self.made(x, grid), &at, &along)?.1
            }
            // Linear in the images.
            [Some(dx), None] => ops::cast(&self.made(dx, grid)?, call.outputs[0].dtype())?,
            [None, Some(dgrid)] => jvp(|grid| self.made(x, grid), grid, dgrid)?.1,
            _ => call.outputs[0].zeros_like()?,
        };
        Ok(smallvec![along])
    }
    fn terms(&self, inputs: &[&Tensor]) -> usize {
        let axes = (inputs[0].ndim() - 2) as u32;
        match self.options.mode {
            Interpolation::Linear => 2usize.pow(axes),
            Interpolation::Cubic => 4usize.pow(axes),
            _ => 1,
        }
    }
    fn batch(&self, call: &Batch<'_>) -> Batched {
        call.call(Box::new(*self), View::merged(0), View::merged(0))
    }
}
