//! The reference for sums of products: one loop over all labels.

use crate::array::*;
use crate::draw::Draw;
use crate::reference::{Call, Reference};
use extensor::DType;
use extensor::ops::params::{Params, Value};
use std::collections::BTreeMap;

pub const REFERENCE: Reference = Reference {
    names: &["einsum"],
    draw,
    forward: |call| vec![forward(call)],
    backward: |call, grads, _| backward(call, &grads[0]),
};

/// The most that the sizes of all labels may be multiplied together.
const MOST: usize = 20_000;

/// A random equation: letters with sizes, operands that have some of them, some twice, and an ellipsis.
fn draw(draw: &mut Draw, _: &'static str) -> (Vec<Array>, Params) {
    let count = if draw.chance(12) { draw.below(6) + 5 } else { draw.below(4) + 1 };
    let letters: Vec<char> = "aBcxyZ".chars().take(draw.below(5) + 1).collect();
    let mut total = 1;
    let sizes: Vec<usize> = letters
        .iter()
        .map(|_| {
            let size = match draw.below(9) {
                0 if draw.chance(3) => 0,
                0 | 1 => 1,
                2 if total < 40 => draw.below(60) + 1,
                _ => draw.below(6) + 1,
            };
            let size = if total * size > MOST { 1 } else { size };
            total *= size.max(1);
            size
        })
        .collect();
    let dots = draw.chance(4);
    let hidden: Vec<usize> = (0..draw.below(3)).map(|_| draw.below(3) + 1).collect();
    let mut inputs = Vec::new();
    let mut texts = Vec::new();
    for _ in 0..count {
        let mut picked = draw.subset(letters.len());
        if draw.chance(4) && !picked.is_empty() {
            let again = draw.pick(&picked);
            picked.push(again);
        }
        let twice = |k: usize| picked.iter().filter(|p| **p == k).count() > 1;
        let mut text: String = picked.iter().map(|&k| letters[k]).collect();
        let mut shape: Vec<usize> = picked.iter().map(|&k| sizes[k]).collect();
        for (i, &k) in picked.iter().enumerate() {
            // Broadcast along this axis, in one of the operands at least not.
            if !twice(k) && draw.chance(12) {
                shape[i] = 1;
            }
        }
        if dots && (draw.chance(2) || inputs.is_empty()) {
            let at = draw.below(picked.len() + 1);
            text.insert_str(text.char_indices().nth(at).map_or(text.len(), |(i, _)| i), "...");
            shape.splice(at..at, draw.partner(&hidden));
        }
        inputs.push(shape);
        texts.push(text);
    }
    let written: Vec<char> =
        letters.iter().copied().filter(|c| texts.iter().any(|t| t.contains(*c))).collect();
    let mut equation = texts.join(",");
    if !draw.chance(4) {
        let kept = draw.subset(written.len());
        let mut output: String = kept.iter().map(|&k| written[k]).collect();
        if dots {
            let at = draw.below(kept.len() + 1);
            output.insert_str(at, "...");
        }
        equation = format!("{equation}->{output}");
    }
    let whole = draw.chance(4);
    let dtype = if whole { draw.integer() } else { draw.float() };
    let dtypes = draw.promoting(dtype);
    let array = |shape: &Vec<usize>| {
        let dtype = draw.pick(&dtypes);
        draw.array(shape, dtype, [-2.0, 2.0])
    };
    let inputs = inputs.iter().map(array).collect();
    (inputs, Params::new().with("equation", &*equation))
}

/// What the equation means: for each operand and the result the names of its axes, and their sizes. An
/// axis that an ellipsis stands for is named by how far it is from the last of them.
struct Meaning {
    inputs: Vec<Vec<String>>,
    output: Vec<String>,
    names: Vec<String>,
    sizes: Vec<usize>,
}

fn names(text: &str, hidden: usize) -> Vec<String> {
    let (before, after) = text.split_once("...").map_or((text, ""), |parts| parts);
    let letters = |part: &str| part.chars().map(String::from).collect::<Vec<_>>();
    let mut all = letters(before);
    all.extend((0..hidden).rev().map(|k| k.to_string()));
    all.extend(letters(after));
    all
}

fn meaning(call: &Call) -> Meaning {
    let Value::Text(text) = call.param("equation") else { panic!("an equation") };
    let (left, right) = text.split_once("->").map_or((&**text, None), |(l, r)| (l, Some(r)));
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    let mut inputs = Vec::new();
    let mut most = 0;
    for (part, x) in left.split(',').zip(&call.inputs) {
        let hidden = x.shape.len() - part.chars().filter(|c| *c != '.').count();
        most = most.max(hidden);
        let own = names(part, hidden);
        for (name, &size) in own.iter().zip(&x.shape) {
            let known = sizes.entry(name.clone()).or_insert(1);
            if size != 1 {
                *known = size;
            }
        }
        inputs.push(own);
    }
    let output = match right {
        Some(right) => names(right, if right.contains("...") { most } else { 0 }),
        None => {
            let mut output: Vec<String> = (0..most).rev().map(|k| k.to_string()).collect();
            let once = |c: &char| left.matches(*c).count() == 1 && c.is_alphabetic();
            let mut letters: Vec<char> = left.chars().filter(once).collect();
            letters.sort_unstable();
            output.extend(letters.into_iter().map(String::from));
            output
        }
    };
    let (names, sizes) = sizes.into_iter().unzip();
    Meaning { inputs, output, names, sizes }
}

impl Meaning {
    /// The shape of the result.
    fn shape(&self) -> Vec<usize> {
        self.output.iter().map(|name| self.sizes[self.place(name)]).collect()
    }

    fn place(&self, name: &str) -> usize {
        self.names.iter().position(|n| n == name).expect("a name")
    }

    /// Calls `visit` with the numbers of the elements that meet, of each operand and of the result.
    fn walk(&self, shapes: &[&[usize]], mut visit: impl FnMut(&[usize], usize)) {
        let places = |labels: &Vec<String>| labels.iter().map(|l| self.place(l)).collect();
        let inputs: Vec<Vec<usize>> = self.inputs.iter().map(places).collect();
        let output: Vec<usize> = places(&self.output);
        let whole = self.shape();
        let mut at = vec![0; inputs.len()];
        walk(&self.sizes, |index| {
            for ((at, places), shape) in at.iter_mut().zip(&inputs).zip(shapes) {
                let own: Vec<usize> = places.iter().map(|&p| index[p]).collect();
                *at = ravel_broadcast(&own, shape);
            }
            let own: Vec<usize> = output.iter().map(|&p| index[p]).collect();
            visit(&at, ravel(&own, &whole));
        });
    }
}

/// A sum of products of `factors` numbers of at most `largest`, in any order: each rounds as often as it
/// is multiplied and added.
fn near(sum: &Sum, factors: usize, dtype: DType) -> Near {
    let work = working(dtype);
    let value = sum.value();
    if factors < 2 && sum.count < 2 {
        return Near { value, error: 0.0 };
    }
    let steps = (sum.count + factors) as f64;
    let below = tiny(work) * 4f64.powi(factors as i32);
    let error = steps * (work.epsilon() / 2.0 * sum.size + below);
    // The reference multiplies and adds in f64 itself.
    Near { value, error: error + steps * f64::EPSILON * sum.size }
}

fn forward(call: &Call) -> Expected {
    let meaning = meaning(call);
    let shape = meaning.shape();
    let dtype = call.promoted(0..call.inputs.len());
    let shapes: Vec<&[usize]> = call.inputs.iter().map(|x| &x.shape[..]).collect();
    let len = shape.iter().product();
    if dtype.is_int() {
        let mut sums = vec![0i128; len];
        meaning.walk(&shapes, |at, k| {
            let factors = call.inputs.iter().zip(at).map(|(x, &i)| x.integers()[i]);
            let product = factors.fold(1, |all, x| wrap(all * wrap(x, dtype), dtype));
            sums[k] = wrap(sums[k] + product, dtype);
        });
        return Expected { shape, dtype, values: Wanted::Integers(sums) };
    }
    let mut sums = vec![Sum::default(); len];
    meaning.walk(&shapes, |at, k| {
        sums[k].add(call.inputs.iter().zip(at).map(|(x, &i)| x.floats()[i]).product());
    });
    let values = sums.iter().map(|sum| near(sum, call.inputs.len(), dtype)).collect();
    Expected { shape, dtype, values: Wanted::Floats(values) }
}

fn backward(call: &Call, g: &Array) -> Vec<Option<Expected>> {
    let meaning = meaning(call);
    let shapes: Vec<&[usize]> = call.inputs.iter().map(|x| &x.shape[..]).collect();
    let mut sums: Vec<Vec<Sum>> =
        call.inputs.iter().map(|x| vec![Sum::default(); x.len()]).collect();
    meaning.walk(&shapes, |at, k| {
        for (i, sums) in sums.iter_mut().enumerate() {
            let others = call.inputs.iter().zip(at).enumerate().filter(|(j, _)| *j != i);
            let others: f64 = others.map(|(_, (x, &j))| x.floats()[j]).product();
            sums[at[i]].add(g.floats()[k] * others);
        }
    });
    let expected = |(x, sums): (&Array, &Vec<Sum>)| {
        let one = |sum: &Sum| {
            let near = near(sum, call.inputs.len(), g.dtype);
            // In another dtype than the result's it is rounded twice.
            let twice = if x.dtype == g.dtype { 0.0 } else { half_ulp(near.value, g.dtype) };
            Near { error: near.error + twice, ..near }
        };
        let values = Wanted::Floats(sums.iter().map(one).collect());
        Some(Expected { shape: x.shape.clone(), dtype: x.dtype, values })
    };
    call.inputs.iter().zip(&sums).map(expected).collect()
}
