//! The slow reference for images read at the places of a grid: every number of an image with its weight, in
//! `f64`.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::ops::params::{Params, Value};

pub const REFERENCE: Reference = Reference { names: &["grid_sample"], draw, forward, backward };

fn draw(draw: &mut Draw, _: &'static str) -> (Vec<Array>, Params) {
    let axes = if draw.chance(4) { 3 } else { 2 };
    let float = draw.float();
    let dtypes = draw.promoting(float);
    let modes: &[&str] = if axes == 3 {
        &["linear", "trilinear", "nearest"]
    } else {
        &["linear", "bilinear", "nearest", "cubic", "bicubic"]
    };
    let mode = draw.pick(modes);
    let mut params = Params::new().with("align_corners", draw.chance(2));
    if mode != "linear" || draw.chance(2) {
        params = params.with("mode", mode);
    }
    params = params.with("padding_mode", draw.pick(&["zeros", "border", "reflection"]));
    let before = [draw.below(3), draw.below(4)];
    let most = if axes == 2 && draw.chance(8) { 40 } else { 5 };
    let size = |draw: &mut Draw, least: usize| -> Vec<usize> {
        (0..axes).map(|_| draw.below(most) + least).collect()
    };
    let least = usize::from(!draw.chance(9));
    let (sizes, out) = (size(draw, 1), size(draw, least));
    let x = draw.array(&[&before[..], &sizes].concat(), dtypes[0], [-3.0, 3.0]);
    let mut grid = draw.array(&[&before[..1], &out, &[axes]].concat(), dtypes[1], [-1.7, 1.7]);
    if draw.chance(2) {
        draw.sprinkle(&mut grid, &[0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -7.0, 0.25]);
    }
    if draw.chance(10) {
        draw.sprinkle(&mut grid, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e4]);
    }
    (vec![x, grid], params)
}

/// What a call is about.
struct Setting<'a> {
    mode: &'a str,
    padding: &'a str,
    corners: bool,
}

impl<'a> Setting<'a> {
    fn of(call: &'a Call) -> Setting<'a> {
        let word = |name: &str, default: &'a str| match call.param(name) {
            Value::Text(word) => &word[..],
            _ => default,
        };
        let mode = match word("mode", "linear") {
            "bilinear" | "trilinear" => "linear",
            "bicubic" => "cubic",
            mode => mode,
        };
        let padding = word("padding_mode", "zeros");
        Setting { mode, padding, corners: call.flag("align_corners") }
    }

    /// A place or an index brought inside, and how it moves there when it moves; nothing where there is nothing
    /// but zeros.
    fn inside(&self, mut at: f64, n: usize) -> Option<(f64, f64)> {
        let last = n as f64 - 1.0;
        let mut slope = 1.0;
        match self.padding {
            "zeros" => return (0.0..=last).contains(&at).then_some((at, 1.0)),
            "reflection" if self.corners && n == 1 => return Some((0.0, 0.0)),
            "reflection" => {
                let (low, high) = if self.corners { (0.0, last) } else { (-0.5, last + 0.5) };
                // Whole periods, and then a turn at the upper end.
                let span = high - low;
                if at < low {
                    (at, slope) = (2.0 * low - at, -1.0);
                }
                while at - low >= 2.0 * span {
                    at -= 2.0 * span;
                }
                if at > high || at == high && span > 0.0 {
                    (at, slope) = (2.0 * high - at, -slope);
                }
            }
            _ => {}
        }
        let held = at <= 0.0 || at >= last;
        Some((at.clamp(0.0, last), if held { 0.0 } else { slope }))
    }

    /// The numbers along an axis of `n` that count at `grid`, how much, and how that changes; NaN is a number's
    /// weight where the place is NaN.
    fn along(&self, grid: f64, n: usize) -> Vec<(usize, f64, f64)> {
        let size = n as f64;
        let (place, scale) = if self.corners {
            ((grid + 1.0) * 0.5 * (size - 1.0), 0.5 * (size - 1.0))
        } else {
            (((grid + 1.0) * size - 1.0) * 0.5, 0.5 * size)
        };
        if place.is_nan() || self.padding == "reflection" && place.is_infinite() {
            return vec![(0, f64::NAN, f64::NAN)];
        }
        if place.is_infinite() {
            let edge = if place > 0.0 { n - 1 } else { 0 };
            return if self.padding == "zeros" { vec![] } else { vec![(edge, 1.0, 0.0)] };
        }
        let (place, turn) = match self.padding {
            "zeros" => (place, 1.0),
            _ if self.mode == "cubic" => (place, 1.0),
            _ => self.inside(place, n).expect("a place"),
        };
        let whole = place.floor();
        let t = place - whole;
        let near = |d: f64| (1.0 - d) * (1.0 + d * (1.0 - 1.25 * d));
        let far = |d: f64| -0.75 * (d - 1.0) * (2.0 - d) * (2.0 - d);
        // (1.25·d³ − 2.25·d² + 1)′ and −0.75·(d³ − 5·d² + 8·d − 4)′.
        let near_slope = |d: f64| 3.75 * d * d - 4.5 * d;
        let far_slope = |d: f64| -0.75 * (3.0 * d * d - 10.0 * d + 8.0);
        let taps = match self.mode {
            "nearest" => vec![(place.round_ties_even(), 1.0, 0.0)],
            "linear" => vec![(whole, 1.0 - t, -1.0), (whole + 1.0, t, 1.0)],
            _ => vec![
                (whole - 1.0, far(t + 1.0), far_slope(t + 1.0)),
                (whole, near(t), near_slope(t)),
                (whole + 1.0, near(1.0 - t), -near_slope(1.0 - t)),
                (whole + 2.0, far(2.0 - t), -far_slope(2.0 - t)),
            ],
        };
        let taps = taps.into_iter().filter_map(|(at, weight, slope)| {
            let (at, _) = self.inside(at, n)?;
            Some((at as usize, weight, slope * scale * turn))
        });
        taps.collect()
    }
}

/// An element of `x` that counts for a place, with its weight, and how the weight changes along each axis.
struct Pair {
    /// The image, the place in the grid of all images, and the number in the image.
    image: usize,
    place: usize,
    number: usize,
    weight: f64,
    slopes: Vec<f64>,
}

fn pairs(call: &Call) -> (Vec<usize>, Vec<Pair>) {
    let (x, grid) = (&call.inputs[0], &call.inputs[1]);
    let axes = x.shape.len() - 2;
    let setting = Setting::of(call);
    let sizes = &x.shape[2..];
    let out = &grid.shape[1..=axes];
    let count: usize = out.iter().product();
    let mut found = Vec::new();
    for place in 0..x.shape[0] * count {
        let along = |axis: usize| {
            let named = grid.floats()[place * axes + axes - 1 - axis];
            setting.along(named, sizes[axis])
        };
        let mut all = vec![(0, 1.0, vec![])];
        for (axis, &size) in sizes.iter().enumerate() {
            let taps = along(axis);
            let mut next = Vec::new();
            for (number, weight, slopes) in &all {
                for &(k, w, s) in &taps {
                    let mut changed: Vec<f64> =
                        slopes.iter().map(|slope: &f64| slope * w).collect();
                    changed.push(weight * s);
                    next.push((number * size + k, weight * w, changed));
                }
            }
            all = next;
        }
        let image = place / count;
        found.extend(all.into_iter().map(|(number, weight, slopes)| Pair {
            image,
            place,
            number,
            weight,
            slopes,
        }));
    }
    let shape = x.shape[..2].iter().chain(out).copied().collect();
    (shape, found)
}

/// A sum with the sizes of what was added, where weights count as if they were 1: they are rounded by themselves.
#[derive(Clone, Default)]
struct Total {
    sum: Sum,
    size: f64,
}

impl Total {
    fn add(&mut self, x: f64, weight: f64) {
        self.sum.add_product(x, weight);
        self.size += x.abs() * (1.0 + weight.abs());
    }

    fn near(&self, unit: f64, tiny: f64) -> Near {
        let error = (self.sum.count as f64 + 24.0) * (unit / 2.0 * self.size + tiny);
        Near { value: self.sum.value(), error }
    }
}

fn forward(call: &Call) -> Vec<Expected> {
    let x = &call.inputs[0];
    let dtype = call.promoted(0..2);
    let work = working(dtype);
    let (shape, pairs) = pairs(call);
    let [n, c] = [shape[0], shape[1]];
    let volume: usize = x.shape[2..].iter().product();
    let count: usize = shape[2..].iter().product();
    let mut totals = vec![Total::default(); n * c * count];
    for pair in &pairs {
        for channel in 0..c {
            let of = x.floats()[(pair.image * c + channel) * volume + pair.number];
            let at = (pair.image * c + channel) * count + pair.place % count;
            totals[at].add(of, pair.weight);
        }
    }
    let near = totals.iter().map(|total| total.near(work.epsilon(), tiny(work)));
    vec![Expected { shape, dtype, values: Wanted::Floats(near.collect()) }]
}

fn backward(call: &Call, grads: &[Array], _: &[Array]) -> Vec<Option<Expected>> {
    let [x, grid] = [&call.inputs[0], &call.inputs[1]];
    let work = working(call.promoted(0..2));
    let (shape, pairs) = pairs(call);
    let c = shape[1];
    let volume: usize = x.shape[2..].iter().product();
    let count: usize = shape[2..].iter().product();
    let axes = shape.len() - 2;
    let g = grads[0].floats();
    let mut by_x = vec![Total::default(); x.len()];
    let mut by_grid = vec![Total::default(); grid.len()];
    for pair in &pairs {
        for channel in 0..c {
            let from = (pair.image * c + channel) * volume + pair.number;
            let g = g[(pair.image * c + channel) * count + pair.place % count];
            // A place that is not one has no neighbours.
            if !pair.weight.is_nan() {
                by_x[from].add(g, pair.weight);
            }
            for (axis, &slope) in pair.slopes.iter().enumerate() {
                by_grid[pair.place * axes + axes - 1 - axis].add(g * x.floats()[from], slope);
            }
        }
    }
    let unit = work.epsilon();
    let near_x = by_x.iter().map(|total| total.near(unit, tiny(work)));
    // Where the place is NaN so is its gradient, or there is none.
    let near_grid = by_grid.iter().enumerate().map(|(at, total)| {
        let place = &grid.floats()[at / axes * axes..(at / axes + 1) * axes];
        match place.iter().any(|x| x.is_nan()) {
            true => Near { value: 0.0, error: f64::INFINITY },
            false => total.near(unit, tiny(work)),
        }
    });
    let expected = |of: &Array, near: Vec<Near>| {
        let (shape, dtype) = (of.shape.clone(), of.dtype);
        Some(Expected { shape, dtype, values: Wanted::Floats(near) })
    };
    vec![expected(x, near_x.collect()), expected(grid, near_grid.collect())]
}
