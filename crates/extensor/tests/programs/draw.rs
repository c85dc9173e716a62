//! Programs drawn from a seed: an operation after the other, each tried eagerly before it is taken.

use crate::program::{Node, Program};
use extensor::ops::broadcast_shapes;
use extensor::ops::catalogue::{CATALOGUE, find};
use extensor::ops::params::{Params, Value};
use extensor::ops::record::{Class, Record};
use extensor::{DType, Key, Tensor, tensor};

/// Draws numbers, one after the other.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number in `0..high`.
    pub fn below(&mut self, high: usize) -> usize {
        (self.next() % high.max(1) as u64) as usize
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Numbers at which formulas take other branches.
const SPECIAL: [f64; 12] = [
    0.0,
    -0.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e-40,
    -1e-310,
    3e-6,
    6e4,
    -3e38,
    1.0,
    -1.0,
];

/// The most numbers that a value has, and what it may have in one program of twenty.
const MOST: usize = 600;
const MANY: usize = 70_000;

/// A program while it is being drawn.
struct Drawing<'a> {
    draw: &'a mut Draw,
    nodes: Vec<Node>,
    /// What each node is, with the numbers of the first run and of the second.
    values: Vec<[Tensor; 2]>,
    /// The dtype that most inputs have.
    dtype: DType,
    /// Whether its numbers are special ones, too, and results need not be finite.
    wild: bool,
    most: usize,
}

/// A program of 1 to 60 operations.
pub fn program(draw: &mut Draw) -> Program {
    let length = 1 + draw.below(60);
    let dtype = draw.pick(&DType::FLOATS);
    let (wild, many) = (draw.chance(10), draw.chance(20));
    let most = if many { MANY } else { MOST };
    let mut drawing = Drawing { draw, nodes: Vec::new(), values: Vec::new(), dtype, wild, most };
    drawing.first_inputs(many);
    let inputs = drawing.nodes.len();
    let (mut calls, mut attempts) = (0, 0);
    while calls < length && attempts < 40 * length + 200 {
        attempts += 1;
        let before = drawing.nodes.len();
        let added = drawing.step();
        if added == 0 || calls + added > length {
            // What was added for it goes with it.
            drawing.nodes.truncate(before);
            drawing.values.truncate(before);
        } else {
            calls += added;
        }
    }
    let Drawing { draw, nodes, .. } = drawing;
    let last = nodes.len() - 1;
    let mut results = vec![last];
    // Values that nobody uses are results, and some that are used.
    let mut used = vec![false; nodes.len()];
    for node in &nodes {
        if let Node::Call { of, .. } = node {
            of.iter().for_each(|&k| used[k] = true);
        }
    }
    for k in inputs..last {
        let call = matches!(nodes[k], Node::Call { .. });
        if call && (!used[k] || draw.chance(12)) {
            results.push(k);
        }
    }
    Program { nodes, results }
}

impl Drawing<'_> {
    fn first_inputs(&mut self, many: bool) {
        let ndim = self.draw.below(4);
        let mut shape: Vec<usize> = (0..ndim).map(|_| 1 + self.draw.below(6)).collect();
        if many {
            shape = match self.draw.below(3) {
                0 => vec![20_000 + self.draw.below(40_000)],
                1 => vec![3, 9_000 + self.draw.below(9_000)],
                _ => vec![150 + self.draw.below(100), 200 + self.draw.below(80)],
            };
        }
        for _ in 0..1 + self.draw.below(4) {
            // Some of the axes are broadcast.
            let mut own = shape.clone();
            for size in &mut own {
                if self.draw.chance(5) {
                    *size = 1;
                }
            }
            if self.draw.chance(5) {
                own = own.split_off(own.len().min(1));
            }
            let dtype =
                if self.draw.chance(4) { self.draw.pick(&DType::FLOATS) } else { self.dtype };
            self.input(&own, dtype);
        }
    }

    /// A new input of floats.
    fn input(&mut self, shape: &[usize], dtype: DType) -> usize {
        let numbers = [0, 1].map(|_| {
            let key = Key::new(self.draw.next());
            let x = key.uniform(shape, -1.5, 1.5, DType::F64).expect("numbers");
            let mut values = x.to_f64_vec();
            if self.wild {
                for value in &mut values {
                    if self.draw.chance(5) {
                        *value = self.draw.pick(&SPECIAL);
                    }
                }
            }
            let x = Tensor::from_vec(values, shape.to_vec()).expect("as many numbers");
            x.cast(dtype).expect("a float type")
        });
        self.add(Node::Input(numbers.clone()), numbers)
    }

    /// A new input of whole numbers in `0..high`.
    fn index(&mut self, shape: &[usize], high: usize) -> usize {
        let count = shape.iter().product();
        let dtype = self.draw.pick(&[DType::I64, DType::I32]);
        let numbers = [0, 1].map(|_| {
            let values: Vec<i64> = (0..count).map(|_| self.draw.below(high) as i64).collect();
            let x = Tensor::from_vec(values, shape.to_vec()).expect("as many numbers");
            x.cast(dtype).expect("a number type")
        });
        self.add(Node::Input(numbers.clone()), numbers)
    }

    fn add(&mut self, node: Node, values: [Tensor; 2]) -> usize {
        self.nodes.push(node);
        self.values.push(values);
        self.nodes.len() - 1
    }

    /// A value that there is, rather one of the last.
    fn any(&mut self, such: impl Fn(&Tensor) -> bool) -> Option<usize> {
        let all: Vec<usize> =
            (0..self.values.len()).filter(|&k| such(&self.values[k][0])).collect();
        if all.is_empty() {
            return None;
        }
        let recent = all.len().min(6);
        Some(match self.draw.chance(3) {
            true => self.draw.pick(&all),
            false => self.draw.pick(&all[all.len() - recent..]),
        })
    }

    fn float(&mut self) -> Option<usize> {
        self.any(|x| x.dtype().is_float())
    }

    fn float_of(&mut self, such: impl Fn(&Tensor) -> bool) -> Option<usize> {
        self.any(|x| x.dtype().is_float() && such(x))
    }

    fn shape(&self, k: usize) -> Vec<usize> {
        self.values[k][0].shape().to_vec()
    }

    /// Calls an operation, if that is possible; the number of its value.
    fn call(&mut self, name: &str, params: Params, of: &[usize]) -> Option<usize> {
        let record = find(name).unwrap_or_else(|error| panic!("{error}"));
        self.call_record(record, params, of)
    }

    fn call_record(
        &mut self,
        record: &'static Record,
        params: Params,
        of: &[usize],
    ) -> Option<usize> {
        // They tell the sign of a NaN, which kernels do not promise, just as Rust does not.
        let is_nan = |&k: &usize| {
            self.values[k].iter().any(|x| x.to_f64_vec().iter().any(|value| value.is_nan()))
        };
        if self.wild && matches!(record.name, "signbit" | "copysign") && of.iter().any(is_nan) {
            return None;
        }
        // What would be far too large is not even made.
        let shapes: Vec<&[usize]> = of.iter().map(|&k| &self.values[k][0].shape()[..]).collect();
        let together = broadcast_shapes(&shapes);
        if together.is_ok_and(|shape| shape.iter().product::<usize>() > 64 * MANY) {
            return None;
        }
        let run = |run: usize| {
            let of: Vec<&Tensor> = of.iter().map(|&k| &self.values[k][run]).collect();
            // What a shape or a dtype does not allow is not taken.
            record.call(&of, &params).ok().map(|mut all| all.swap_remove(0))
        };
        let [first, second] = [run(0)?, run(1)?];
        let sound = |y: &Tensor| {
            y.len() <= self.most
                && (self.wild || y.to_f64_vec().iter().all(|v| v.is_finite() && v.abs() < 1e4))
        };
        if !sound(&first) || !sound(&second) {
            return None;
        }
        let values = [first, second];
        Some(self.add(Node::Call { record, params, of: of.to_vec() }, values))
    }

    /// One operation more, or a few; how many.
    fn step(&mut self) -> usize {
        let one = |found: Option<usize>| usize::from(found.is_some());
        match self.draw.below(100) {
            0..28 => one(self.unary()),
            28..50 => one(self.binary()),
            50..54 => self.chosen(),
            54..68 => one(self.view()),
            68..77 => one(self.reduction()),
            77..82 => self.product(),
            82..87 => one(self.rows()),
            87..92 => one(self.conversion()),
            92..96 => one(self.picked()),
            _ => one(self.joined()),
        }
    }

    /// A function of one number.
    fn unary(&mut self) -> Option<usize> {
        let record = self.draw.pick(&records(1));
        let x = match record.class {
            Class::Elementwise => self.float()?,
            _ => self.any(|_| true)?,
        };
        self.call_record(record, Params::new(), &[x])
    }

    /// A function of two numbers, of one shape or broadcast.
    fn binary(&mut self) -> Option<usize> {
        let record = match self.draw.below(3) {
            0 => self.draw.pick(&records(2)),
            _ => {
                let name = self.draw.pick(&["add", "subtract", "multiply", "maximum", "divide"]);
                find(name).expect("an operation")
            }
        };
        let a = self.any(|x| x.dtype() != DType::Bool)?;
        let like = self.values[a][0].clone();
        let b = match self.draw.below(8) {
            // A constant, of no axes.
            0 => {
                let value = self.draw.pick(&[0.5, 2.0, -1.0, 0.1]);
                let x = tensor(value).cast(like.dtype()).ok()?;
                self.add(Node::Input([x.clone(), x.clone()]), [x.clone(), x])
            }
            1..5 => self.any(|x| x.dtype() == like.dtype() && x.shape() == like.shape())?,
            _ => self.any(|x| x.dtype() != DType::Bool)?,
        };
        let pair = if self.draw.chance(2) { [a, b] } else { [b, a] };
        self.call_record(record, Params::new(), &pair)
    }

    /// A mask, and what it chooses.
    fn chosen(&mut self) -> usize {
        let mut count = 0;
        let mask = match self.any(|x| x.dtype() == DType::Bool) {
            Some(mask) if self.draw.chance(2) => Some(mask),
            _ => self.float().and_then(|a| {
                let like = self.values[a][0].clone();
                let b = self.any(|x| x.dtype() == like.dtype())?;
                count += 1;
                let name = self.draw.pick(&["less", "greater_equal", "equal", "not_equal"]);
                self.call(name, Params::new(), &[a, b])
            }),
        };
        let found = mask.and_then(|mask| {
            let a = self.float()?;
            let dtype = self.values[a][0].dtype();
            let b = self.float_of(|x| x.dtype() == dtype)?;
            self.call("where", Params::new(), &[mask, a, b])
        });
        if found.is_some() { count + 1 } else { 0 }
    }

    fn axis(&mut self, ndim: usize) -> i64 {
        let axis = self.draw.below(ndim) as i64;
        if self.draw.chance(3) { axis - ndim as i64 } else { axis }
    }

    fn view(&mut self) -> Option<usize> {
        let x = self.any(|_| true)?;
        let shape = self.shape(x);
        let ndim = shape.len();
        let sizes = |shape: &[usize]| shape.iter().map(|&n| n as i64).collect::<Vec<i64>>();
        let params = Params::new();
        let (name, params) = match self.draw.below(9) {
            0 | 1 if ndim > 1 => {
                let mut order: Vec<i64> = (0..ndim as i64).collect();
                for i in (1..ndim).rev() {
                    order.swap(i, self.draw.below(i + 1));
                }
                ("transpose", params.with("axes", order))
            }
            2 | 3 if ndim > 0 => {
                let axis = self.draw.below(ndim);
                let (a, b) = (self.draw.below(shape[axis]), self.draw.below(shape[axis]) + 1);
                let step = self.draw.pick(&[1, 1, 2]);
                let range = params.with("axis", axis as i64).with("start", a.min(b - 1) as i64);
                ("slice", range.with("stop", b.max(a + 1) as i64).with("step", step))
            }
            4 if ndim > 1 => {
                // Two axes next to each other become one.
                let axis = self.draw.below(ndim - 1);
                let mut to = sizes(&shape);
                let size = to.remove(axis);
                to[axis] *= size;
                ("reshape", params.with("shape", to))
            }
            4 | 5 if ndim > 0 => {
                // One becomes two.
                let axis = self.draw.below(ndim);
                let divisors: Vec<i64> =
                    (1..=shape[axis] as i64).filter(|d| shape[axis] as i64 % d == 0).collect();
                let divisor = if divisors.is_empty() { 1 } else { self.draw.pick(&divisors) };
                let mut to = sizes(&shape);
                to[axis] /= divisor;
                to.insert(axis, divisor);
                ("reshape", params.with("shape", to))
            }
            6 if ndim > 0 => {
                let axis = self.draw.below(ndim) as i64;
                (
                    "flip",
                    params
                        .with("axis", if self.draw.chance(3) { Value::None } else { axis.into() }),
                )
            }
            7 => {
                let mut to = sizes(&shape);
                for size in to.iter_mut().filter(|size| **size == 1) {
                    *size = 1 + self.draw.below(4) as i64;
                }
                if self.draw.chance(2) && ndim < 4 {
                    to.insert(0, 1 + self.draw.below(3) as i64);
                }
                ("broadcast_to", params.with("shape", to))
            }
            8 if self.draw.chance(2) => ("squeeze", params.with("axis", Value::None)),
            _ => ("expand_dims", params.with("axis", self.draw.below(ndim + 1) as i64)),
        };
        if ndim > 4 && matches!(name, "expand_dims" | "broadcast_to") {
            return None;
        }
        self.call(name, params, &[x])
    }

    fn reduction(&mut self) -> Option<usize> {
        let x = match self.draw.chance(8) {
            true => self.any(|x| x.dtype() == DType::Bool)?,
            false => self.float()?,
        };
        let mask = self.values[x][0].dtype() == DType::Bool;
        let names = if mask {
            &["any", "all", "sum"][..]
        } else {
            &[
                "sum",
                "sum",
                "sum",
                "mean",
                "mean",
                "max_reduce",
                "max_reduce",
                "min_reduce",
                "variance",
                "std",
                "norm",
            ][..]
        };
        let name = self.draw.pick(names);
        let name = if !mask && self.draw.chance(8) {
            self.draw.pick(&["logsumexp", "prod", "argmax", "cumsum", "cumprod"])
        } else {
            name
        };
        let ndim = self.shape(x).len();
        if ndim == 0 {
            return None;
        }
        let axis = self.axis(ndim);
        if name.starts_with("cum") {
            return self.call(name, Params::new().with("axis", axis), &[x]);
        }
        let keep = Params::new().with("keepdims", self.draw.chance(2));
        let params = match self.draw.below(4) {
            0 => keep,
            1 if ndim > 1 && name != "argmax" => {
                let first = self.draw.below(ndim) as i64;
                keep.with("axis", vec![first, (first + 1) % ndim as i64])
            }
            _ => keep.with("axis", axis),
        };
        self.call(name, params, &[x])
    }

    /// A product of matrices, with a value or with a new weight.
    fn product(&mut self) -> usize {
        let Some(x) = self.float_of(|x| (1..4).contains(&x.ndim()) && x.len() < 8000) else {
            return 0;
        };
        let (shape, dtype) = (self.shape(x), self.values[x][0].dtype());
        let (inner, outer) = (shape[shape.len() - 1], 1 + self.draw.below(7));
        match self.draw.below(3) {
            0 => {
                let weight = self.input(&[outer, inner], dtype);
                let mut of = vec![x, weight];
                if self.draw.chance(2) {
                    of.push(self.input(&[outer], dtype));
                }
                usize::from(self.call("linear", Params::new(), &of).is_some())
            }
            1 => {
                let weight = self.input(&[inner, outer], dtype);
                usize::from(self.call("matmul", Params::new(), &[x, weight]).is_some())
            }
            _ => {
                let fits = |y: &Tensor| {
                    y.ndim() == 2 && y.dtype() == dtype && y.shape()[1] == inner && y.len() < 8000
                };
                let found = self.float_of(fits).and_then(|y| {
                    let turned = self.call("transpose", Params::new(), &[y])?;
                    self.call("matmul", Params::new(), &[x, turned])
                });
                if found.is_some() { 2 } else { 0 }
            }
        }
    }

    /// A softmax or a norm.
    fn rows(&mut self) -> Option<usize> {
        let x = self.float_of(|x| x.ndim() > 0 && !x.is_empty())?;
        let (shape, dtype) = (self.shape(x), self.values[x][0].dtype());
        let last = shape[shape.len() - 1];
        let params = Params::new();
        match self.draw.below(6) {
            0 | 1 => {
                let axis = self.axis(shape.len());
                self.call("softmax", params.with("axis", axis), &[x])
            }
            2 => {
                let axis = self.axis(shape.len());
                self.call("log_softmax", params.with("axis", axis), &[x])
            }
            3 | 4 => {
                let mut of = vec![x];
                if self.draw.chance(2) {
                    of.push(self.input(&[last], dtype));
                    of.push(self.input(&[last], dtype));
                }
                let params = params.with("normalized_shape", vec![last as i64]);
                self.call("layer_norm", params, &of)
            }
            _ => {
                let params = params.with("normalized_shape", vec![last as i64]);
                self.call("rms_norm", params, &[x])
            }
        }
    }

    /// The same in another dtype.
    fn conversion(&mut self) -> Option<usize> {
        let x = self.any(|_| true)?;
        let to = match self.draw.below(10) {
            0 => DType::I32,
            1 => DType::Bool,
            _ => self.draw.pick(&DType::FLOATS),
        };
        // What becomes of a NaN or of 1e30 as a whole number is not what this is about.
        if to == DType::I32 && self.wild {
            return None;
        }
        self.call("cast", Params::new().with("dtype", to.name()), &[x])
    }

    /// Elements picked by indices.
    fn picked(&mut self) -> Option<usize> {
        let x = self.float_of(|x| x.ndim() > 0 && !x.is_empty())?;
        let shape = self.shape(x);
        let axis = self.draw.below(shape.len());
        let params = Params::new().with("axis", axis as i64);
        if self.draw.chance(2) {
            let count = 1 + self.draw.below(5);
            let index = self.index(&[count], shape[axis]);
            return self.call("take", params, &[x, index]);
        }
        let mut like = shape.clone();
        like[axis] = 1 + self.draw.below(4);
        let index = self.index(&like, shape[axis]);
        self.call("gather", params, &[x, index])
    }

    /// Values put together or around.
    fn joined(&mut self) -> Option<usize> {
        let x = self.float_of(|x| x.ndim() > 0)?;
        let like = self.values[x][0].clone();
        let ndim = like.ndim();
        let axis = self.axis(ndim);
        let params = Params::new();
        match self.draw.below(6) {
            0 | 1 => {
                let other = self.any(|y| y.dtype() == like.dtype() && y.shape() == like.shape())?;
                let name = self.draw.pick(&["concatenate", "stack"]);
                self.call(name, params.with("axis", axis), &[x, other])
            }
            2 => {
                let pads: Vec<(i64, i64)> = (0..ndim)
                    .map(|_| (self.draw.below(3) as i64, self.draw.below(2) as i64))
                    .collect();
                self.call("pad", params.with("pads", pads).with("value", 0.25), &[x])
            }
            3 => {
                let shift = self.draw.below(4) as i64 - 1;
                self.call("roll", params.with("shift", vec![shift]).with("axis", vec![axis]), &[x])
            }
            4 => {
                let key = self.draw.below(1000) as i64;
                self.call(
                    "dropout",
                    params.with("p", 0.3).with("key", key).with("training", true),
                    &[x],
                )
            }
            _ => self.call("sort", params.with("axis", axis), &[x]),
        }
    }
}

/// The functions of so many numbers that need no parameters.
fn records(inputs: usize) -> Vec<&'static Record> {
    let such = |r: &&&Record| {
        let number = r.class == Class::Elementwise || r.family.to_string() == "elementwise";
        let number = number || (r.class == Class::Constant && r.family.to_string() == "arithmetic");
        number && r.inputs.len() == inputs && r.auxiliary == 0
    };
    CATALOGUE.iter().filter(such).copied().collect()
}
