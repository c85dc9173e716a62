//! The reference for operations that move elements: for every element of an output, where it comes
//! from. The gradient goes back the same way.

use crate::array::*;
use crate::reference::{Call, index, summed, summed_in_turn};
use crate::scatter;
use extensor::ops::params::Value;

pub const NAMES: [&str; 25] = [
    "reshape",
    "transpose",
    "broadcast_to",
    "squeeze",
    "expand_dims",
    "flatten",
    "concatenate",
    "stack",
    "split",
    "slice",
    "flip",
    "tile",
    "repeat",
    "roll",
    "pad",
    "gather",
    "take",
    "embedding",
    "scatter_add",
    "diagonal",
    "diag",
    "tril",
    "triu",
    "one_hot",
    "cast",
];

/// Where an element comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Element number `.1` of input number `.0`.
    From(usize, usize),
    /// From nowhere: the padding value, or 0.
    Fill,
}
use Source::{Fill, From};

/// An output's shape with the source of each element.
type Moved = (Vec<usize>, Vec<Source>);

/// Each element of an output of this shape from the element of input 0 that `of` says.
fn from_first(
    call: &Call,
    shape: Vec<usize>,
    of: impl Fn(&[usize]) -> Option<Vec<usize>>,
) -> Moved {
    let x = &call.inputs[0];
    let source = |i: Vec<usize>| of(&i).map_or(Fill, |k| From(0, ravel(&k, &x.shape)));
    let sources = indices(&shape).map(source).collect();
    (shape, sources)
}

/// The same elements in the same order.
fn in_order(call: &Call, shape: Vec<usize>) -> Moved {
    let sources = (0..call.inputs[0].len()).map(|k| From(0, k)).collect();
    (shape, sources)
}

pub fn with(index: &[usize], axis: usize, value: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[axis] = value;
    index
}

/// The indices that Python's `start:stop:step` stands for on an axis of size `n`.
pub fn python_slice(start: Option<i64>, stop: Option<i64>, step: i64, n: usize) -> Vec<usize> {
    let n = n as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |bound: Option<i64>, default: i64| match bound {
        None => default,
        Some(b) => (if b < 0 { b.saturating_add(n) } else { b }).clamp(low, high),
    };
    let mut at = place(start, if step > 0 { low } else { high });
    let stop = place(stop, if step > 0 { high } else { low });
    let mut found = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        found.push(at as usize);
        at = at.saturating_add(step);
    }
    found
}

fn sizes(call: &Call, name: &str) -> Vec<i64> {
    call.ints(name).unwrap_or_default()
}

/// Index number `k` of an index tensor, on an axis of size `n`.
pub fn index_at(indices: &Array, k: usize, n: usize) -> usize {
    index(indices.integers()[k] as i64, n)
}

/// Which element of an axis of size `n` is number `i` of the axis with `before` more at its beginning: found
/// by going from the border inwards, a step at a time.
fn bordered(mode: &str, i: usize, before: i64, n: usize) -> Option<usize> {
    let (mut at, n) = (i as i64 - before, n as i64);
    while at < 0 || at >= n {
        at = match mode {
            "constant" => return None,
            "reflect" if at < 0 => -at,
            "reflect" => 2 * (n - 1) - at,
            "circular" | "wrap" => at + if at < 0 { n } else { -n },
            _ => at + if at < 0 { 1 } else { -1 },
        };
    }
    Some(at as usize)
}

fn moved(call: &Call) -> Vec<Moved> {
    let x = &call.inputs[0];
    let (shape, n) = (&x.shape, x.shape.len());
    vec![match call.name {
        "reshape" => {
            let mut to = sizes(call, "shape");
            let known: i64 = to.iter().filter(|&&s| s >= 0).product();
            let rest = x.len() as i64 / known.max(1);
            to.iter_mut().filter(|s| **s < 0).for_each(|s| *s = rest);
            in_order(call, to.iter().map(|&s| s as usize).collect())
        }
        "flatten" => {
            let at = |name: &str, default: i64| index(call.int(name).unwrap_or(default), n);
            let (first, last) = (at("start_axis", 0), at("end_axis", -1));
            let mut to = shape.clone();
            let merged = to[first.min(n)..(last + 1).min(n)].iter().product();
            to.splice(first.min(n)..(last + 1).min(n), [merged]);
            in_order(call, to)
        }
        "squeeze" => {
            let mask = call.axes("axis", n);
            let all = call.ints("axis").is_none();
            let dropped = |i: usize| mask[i] && (!all || shape[i] == 1);
            in_order(call, (0..n).filter(|&i| !dropped(i)).map(|i| shape[i]).collect())
        }
        "expand_dims" => {
            let mut to = shape.clone();
            let axes = sizes(call, "axis");
            let ndim = n + axes.len();
            let mut new: Vec<usize> = axes.iter().map(|&a| index(a, ndim)).collect();
            new.sort_unstable();
            new.into_iter().for_each(|axis| to.insert(axis, 1));
            in_order(call, to)
        }
        "transpose" => {
            let reversed = || (0..n).rev().collect();
            let given = |axes: Vec<i64>| axes.iter().map(|&a| index(a, n)).collect();
            let order: Vec<usize> = call.ints("axes").map_or_else(reversed, given);
            let to = order.iter().map(|&i| shape[i]).collect();
            from_first(call, to, |i| {
                let mut from = vec![0; n];
                order.iter().zip(i).for_each(|(&axis, &k)| from[axis] = k);
                Some(from)
            })
        }
        "broadcast_to" => {
            let to: Vec<usize> = sizes(call, "shape").iter().map(|&s| s as usize).collect();
            let sources = indices(&to).map(|i| From(0, ravel_broadcast(&i, shape))).collect();
            (to, sources)
        }
        "slice" => {
            let axis = call.axis("axis", n);
            let step = call.int("step").unwrap_or(1);
            let picked = python_slice(call.int("start"), call.int("stop"), step, shape[axis]);
            let to = with(shape, axis, picked.len());
            from_first(call, to, |i| Some(with(i, axis, picked[i[axis]])))
        }
        "flip" => {
            let mask = call.axes("axis", n);
            let turned = |i: &[usize]| {
                (0..n).map(|a| if mask[a] { shape[a] - 1 - i[a] } else { i[a] }).collect()
            };
            from_first(call, shape.clone(), |i| Some(turned(i)))
        }
        "tile" => {
            let repeats: Vec<usize> = sizes(call, "repeats").iter().map(|&r| r as usize).collect();
            let ndim = n.max(repeats.len());
            let size = |v: &[usize], i: usize| (i + v.len()).checked_sub(ndim).map_or(1, |k| v[k]);
            let to = (0..ndim).map(|i| size(shape, i) * size(&repeats, i)).collect();
            from_first(call, to, |i| {
                let own = &i[ndim - n..];
                Some(own.iter().zip(shape).map(|(&k, &s)| k % s).collect())
            })
        }
        "repeat" => {
            let (axis, repeats) = (call.axis("axis", n), sizes(call, "repeats"));
            let often = |i: usize| repeats[if repeats.len() == 1 { 0 } else { i }] as usize;
            let copies = |i: usize| std::iter::repeat_n(i, often(i));
            let picked: Vec<usize> = (0..shape[axis]).flat_map(copies).collect();
            let to = with(shape, axis, picked.len());
            from_first(call, to, |i| Some(with(i, axis, picked[i[axis]])))
        }
        "roll" => {
            let (shifts, axes) = (sizes(call, "shift"), sizes(call, "axis"));
            from_first(call, shape.clone(), |i| {
                let mut from: Vec<i64> = i.iter().map(|&k| k as i64).collect();
                for (k, &axis) in axes.iter().enumerate() {
                    let axis = index(axis, n);
                    let shift = shifts[if shifts.len() == 1 { 0 } else { k }];
                    from[axis] = (from[axis] - shift).rem_euclid(shape[axis] as i64);
                }
                Some(from.iter().map(|&k| k as usize).collect())
            })
        }
        "pad" => {
            let Value::Pairs(pads) = call.param("pads") else { panic!("no pads") };
            let to = shape.iter().zip(pads).map(|(&s, p)| s + (p.0 + p.1) as usize).collect();
            let mode = match call.param("mode") {
                Value::Text(mode) => &mode[..],
                _ => "constant",
            };
            from_first(call, to, |i| {
                (0..n).map(|a| bordered(mode, i[a], pads[a].0, shape[a])).collect()
            })
        }
        "diagonal" | "diag" if n > 1 => {
            let k = call.int("offset").unwrap_or(0);
            let of = |name, from_end| index(call.int(name).unwrap_or(from_end), n);
            let [rows, columns] = [of("axis1", -2), of("axis2", -1)];
            let down = |k: i64| usize::try_from(k.max(0)).unwrap();
            let (row, column) = (down(k.saturating_neg()), down(k));
            let inside = |&i: &usize| i + row < shape[rows] && i + column < shape[columns];
            let len = (0..shape[rows]).filter(inside).count();
            let others: Vec<usize> = (0..n).filter(|a| ![rows, columns].contains(a)).collect();
            let mut to: Vec<usize> = others.iter().map(|&a| shape[a]).collect();
            to.push(len);
            from_first(call, to, |i| {
                let mut from = vec![0; n];
                others.iter().zip(i).for_each(|(&a, &k)| from[a] = k);
                (from[rows], from[columns]) = (i[n - 2] + row, i[n - 2] + column);
                Some(from)
            })
        }
        "diag" => {
            let k = call.int("offset").unwrap_or(0);
            let side = shape[0] + k.unsigned_abs() as usize;
            from_first(call, vec![side; 2], |i| {
                let on = i[1] as i64 - i[0] as i64 == k;
                on.then(|| vec![i[0].min(i[1])])
            })
        }
        "tril" | "triu" => {
            let k = call.int("k").unwrap_or(0);
            let lower = call.name == "tril";
            from_first(call, shape.clone(), |i| {
                let above = i[n - 1] as i64 - i[n - 2] as i64;
                (if lower { above <= k } else { above >= k }).then(|| i.to_vec())
            })
        }
        "gather" => {
            let (axis, picks) = (call.axis("axis", n), &call.inputs[1]);
            from_first(call, picks.shape.clone(), |i| {
                let k = index_at(picks, ravel(i, &picks.shape), shape[axis]);
                Some(with(i, axis, k))
            })
        }
        "take" | "embedding" => {
            let picks = &call.inputs[1];
            let axis = if call.name == "take" { call.axis("axis", n) } else { 0 };
            let wide = picks.shape.len();
            let mut to = shape[..axis].to_vec();
            to.extend(&picks.shape);
            to.extend(&shape[axis + 1..]);
            from_first(call, to, |i| {
                let at = ravel(&i[axis..axis + wide], &picks.shape);
                let mut from = i[..axis].to_vec();
                from.push(index_at(picks, at, shape[axis]));
                from.extend(&i[axis + wide..]);
                Some(from)
            })
        }
        "concatenate" => {
            let axis = call.axis("axis", n);
            let total = call.inputs.iter().map(|x| x.shape[axis]).sum();
            let to = with(shape, axis, total);
            let source = |i: Vec<usize>| {
                let (mut which, mut k) = (0, i[axis]);
                while k >= call.inputs[which].shape[axis] {
                    k -= call.inputs[which].shape[axis];
                    which += 1;
                }
                From(which, ravel(&with(&i, axis, k), &call.inputs[which].shape))
            };
            let sources = indices(&to).map(source).collect();
            (to, sources)
        }
        "stack" => {
            let axis = call.axis("axis", n + 1);
            let mut to = shape.clone();
            to.insert(axis, call.inputs.len());
            let source = |mut i: Vec<usize>| {
                let which = i.remove(axis);
                From(which, ravel(&i, shape))
            };
            let sources = indices(&to).map(source).collect();
            (to, sources)
        }
        "split" => return split(call),
        name => panic!("{name} is no mere movement"),
    }]
}

fn split(call: &Call) -> Vec<Moved> {
    let x = &call.inputs[0];
    let axis = call.axis("axis", x.shape.len());
    let mut start = 0;
    let mut part = |size: i64| {
        let to = with(&x.shape, axis, size as usize);
        let moved = from_first(call, to, |i| Some(with(i, axis, start + i[axis])));
        start += size as usize;
        moved
    };
    let parts = match call.int("sections") {
        Some(count) => vec![x.shape[axis] as i64 / count; count as usize],
        None => sizes(call, "sections"),
    };
    parts.into_iter().map(&mut part).collect()
}

pub fn forward(call: &Call) -> Vec<Expected> {
    match call.name {
        "cast" => return vec![scatter::cast(call)],
        "one_hot" => return vec![scatter::one_hot(call)],
        "scatter_add" => return vec![scatter::scatter_add(call)],
        _ => {}
    }
    let tensors = if matches!(call.name, "concatenate" | "stack") { call.inputs.len() } else { 1 };
    let dtype = call.promoted(0..tensors);
    let fill = call.float("value").unwrap_or(0.0);
    let one = |(shape, sources): Moved| {
        let values = if dtype.is_float() {
            let value = |source: Source| match source {
                From(input, k) => Near::exact(call.inputs[input].floats()[k]),
                Fill => Near::exact(round_to(fill, dtype)),
            };
            Wanted::Floats(sources.into_iter().map(value).collect())
        } else {
            let value = |source: Source| match source {
                From(input, k) => call.inputs[input].integers()[k],
                Fill => fill as i128,
            };
            Wanted::Integers(sources.into_iter().map(value).collect())
        };
        Expected { shape, dtype, values }
    };
    moved(call).into_iter().map(one).collect()
}

pub fn backward(call: &Call, grads: &[Array]) -> Vec<Option<Expected>> {
    match call.name {
        "scatter_add" => return scatter::scatter_add_backward(call, &grads[0]),
        "one_hot" => return vec![None],
        _ => {}
    }
    let mut sums: Vec<Vec<Sum>> =
        call.inputs.iter().map(|x| vec![Sum::default(); x.len()]).collect();
    if call.name == "cast" {
        let g = grads[0].floats();
        sums[0].iter_mut().zip(g).for_each(|(sum, &g)| sum.add(g));
    } else {
        for ((_, sources), g) in moved(call).into_iter().zip(grads) {
            for (source, &g) in sources.into_iter().zip(g.floats()) {
                if let From(input, k) = source {
                    sums[input][k].add(g);
                }
            }
        }
    }
    // What is picked several times is added up in turn, other repetitions in blocks.
    let picked = matches!(call.name, "gather" | "take" | "embedding" | "repeat");
    let near = |sum: &Sum, dtype| {
        if picked { summed_in_turn(sum, dtype) } else { summed(sum, 0.0, dtype) }
    };
    let expected = |(x, sums): (&Array, &Vec<Sum>)| {
        x.dtype.is_float().then(|| Expected {
            shape: x.shape.clone(),
            dtype: x.dtype,
            values: Wanted::Floats(sums.iter().map(|s| near(s, x.dtype)).collect()),
        })
    };
    call.inputs.iter().zip(&sums).map(expected).collect()
}
