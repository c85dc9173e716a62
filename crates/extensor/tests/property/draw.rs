//! Random shapes, values and memory layouts, all from one key.

use crate::array::{Array, Values, ravel, round_to, tensor_of, unravel, walk};
use extensor::ops::catalogue;
use extensor::ops::params::Params;
use extensor::{DType, Key, Tensor};

/// Draws numbers from a key, one after the other.
pub struct Draw {
    key: Key,
    count: u64,
}

impl Draw {
    pub fn new(key: Key) -> Draw {
        Draw { key, count: 0 }
    }

    fn next(&mut self) -> Key {
        self.count += 1;
        self.key.fold_in(self.count)
    }

    /// A whole number in `0..high`.
    pub fn below(&mut self, high: usize) -> usize {
        let drawn = self.next().integers([], high as u64);
        drawn.and_then(|x| x.item::<i64>()).expect("a number") as usize
    }

    /// A whole number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Evenly distributed in `[low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64, len: usize) -> Vec<f64> {
        let drawn = self.next().uniform([len], low, high, DType::F64);
        drawn.expect("numbers").to_f64_vec()
    }

    /// `0..n` in random order.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// Some of `0..n`, in random order.
    pub fn subset(&mut self, n: usize) -> Vec<usize> {
        let mut order = self.permutation(n);
        order.truncate(self.below(n + 1));
        order
    }

    fn size(&mut self) -> usize {
        match self.below(8) {
            0 if self.chance(3) => 0,
            0 | 1 => 1,
            _ => self.below(7) + 1,
        }
    }

    /// Any shape; one in some is long along one axis, and some of those have more elements than one
    /// task takes.
    pub fn shape(&mut self) -> Vec<usize> {
        let ndim = self.below(6);
        let mut shape: Vec<usize> = (0..ndim).map(|_| self.size()).collect();
        if ndim > 0 && self.chance(10) {
            let long = self.below(ndim);
            shape = vec![1; ndim];
            shape[long] = self.below(3000) + 1;
            if self.chance(3) && ndim > 1 {
                let other = (long + 1 + self.below(ndim - 1)) % ndim;
                shape[other] = 24 + self.below(16);
                shape[long] = 2500 + self.below(500);
            }
        }
        shape
    }

    /// A shape with at least `ndim` axes.
    pub fn shape_of(&mut self, ndim: usize) -> Vec<usize> {
        let mut shape = self.shape();
        while shape.len() < ndim {
            shape.insert(0, self.size());
        }
        shape
    }

    /// A shape that broadcasts to `shape`.
    pub fn partner(&mut self, shape: &[usize]) -> Vec<usize> {
        let dropped = if self.chance(2) { 0 } else { self.below(shape.len() + 1) };
        let kept = &shape[dropped..];
        kept.iter().map(|&n| if self.chance(3) { 1 } else { n }).collect()
    }

    /// Two shapes that broadcast with each other.
    pub fn pair(&mut self) -> [Vec<usize>; 2] {
        let whole = self.shape();
        match self.below(4) {
            0 => [whole.clone(), whole],
            1 => [self.partner(&whole), whole],
            2 => [whole.clone(), self.partner(&whole)],
            _ => [self.partner(&whole), self.partner(&whole)],
        }
    }

    pub fn float(&mut self) -> DType {
        self.pick(&DType::FLOATS)
    }

    pub fn integer(&mut self) -> DType {
        self.pick(&DType::INTS)
    }

    /// A float or, as often, a whole-number type.
    pub fn number(&mut self) -> DType {
        if self.chance(2) { self.float() } else { self.integer() }
    }

    pub fn anything(&mut self) -> DType {
        self.pick(&DType::ALL)
    }

    /// Two dtypes: usually the same, sometimes two that promote.
    pub fn promoting(&mut self, one: DType) -> [DType; 2] {
        let other = self.anything();
        if self.chance(3) && one.promote(other).is_some() { [one, other] } else { [one, one] }
    }

    /// An array of the dtype's values in `[low, high)` (whole numbers: of a small range or of all).
    pub fn array(&mut self, shape: &[usize], dtype: DType, [low, high]: [f64; 2]) -> Array {
        let len = shape.iter().product();
        let values = if dtype.is_float() {
            let drawn = self.uniform(low, high, len);
            Values::Floats(drawn.iter().map(|&x| round_to(x, dtype)).collect())
        } else {
            let (least, most) = dtype.integer_range();
            let (least, most) = if dtype == DType::Bool || self.chance(3) {
                (least, most)
            } else {
                (least.max(low as i128), most.min(high as i128))
            };
            let drawn = self.uniform(0.0, 1.0, len);
            let span = (most - least + 1) as f64;
            let number = |&u: &f64| ((u * span) as i128 + least).clamp(least, most);
            Values::Integers(drawn.iter().map(number).collect())
        };
        Array { shape: shape.to_vec(), dtype, values }
    }

    /// Puts some of `specials` in place of some of the values.
    pub fn sprinkle(&mut self, array: &mut Array, specials: &[f64]) {
        let dtype = array.dtype;
        let Values::Floats(values) = &mut array.values else {
            return;
        };
        if values.is_empty() {
            return;
        }
        for _ in 0..(values.len() / 4).clamp(1, 40) {
            let at = self.below(values.len());
            values[at] = round_to(self.pick(specials), dtype);
        }
    }

    /// Sometimes makes the array constant along some axes, so that it can lie in memory with
    /// stride 0.
    pub fn expand(&mut self, array: &mut Array) -> Vec<bool> {
        let shape = array.shape.clone();
        let expanded: Vec<bool> = shape.iter().map(|_| self.chance(5)).collect();
        let source = |at: usize| {
            let index = unravel(at, &shape);
            let kept = index.iter().zip(&expanded).map(|(&i, &e)| if e { 0 } else { i });
            ravel(&kept.collect::<Vec<_>>(), &shape)
        };
        let len = array.len();
        match &mut array.values {
            Values::Floats(v) => *v = (0..len).map(|i| v[source(i)]).collect(),
            Values::Integers(v) => *v = (0..len).map(|i| v[source(i)]).collect(),
        }
        expanded
    }
}

/// How an array lies in memory: its axes in which order, how many elements apart, after and before
/// how many that do not belong to it, backwards, or all one element.
#[derive(Clone, Debug)]
pub struct Plan {
    order: Vec<usize>,
    axes: Vec<Axis>,
}

#[derive(Clone, Copy, Debug)]
struct Axis {
    step: usize,
    before: usize,
    after: usize,
    flipped: bool,
    expanded: bool,
}

impl Plan {
    /// A layout; `expanded` axes have stride 0.
    pub fn draw(draw: &mut Draw, expanded: &[bool]) -> Plan {
        let n = expanded.len();
        let order = if draw.chance(2) { draw.permutation(n) } else { (0..n).collect() };
        let strided = draw.chance(2);
        let mut axis = |&expanded: &bool| Axis {
            step: if strided && draw.chance(2) { draw.below(3) + 1 } else { 1 },
            before: if strided { draw.below(3) } else { 0 },
            after: if strided { draw.below(3) } else { 0 },
            flipped: draw.chance(4),
            expanded,
        };
        let axes = expanded.iter().map(&mut axis).collect();
        Plan { order, axes }
    }

    /// The array as a tensor that lies so in memory, among elements that must not be read.
    pub fn tensor(&self, array: &Array) -> Tensor {
        let shape = &array.shape;
        // How many elements each axis has in memory, in the array's order of axes.
        let stored = |i: usize| {
            if self.axes[i].expanded { shape[i].min(1) } else { shape[i] }
        };
        let room: Vec<usize> = (0..shape.len())
            .map(|i| {
                let Axis { step, before, after, .. } = self.axes[i];
                before + after + if stored(i) == 0 { 0 } else { (stored(i) - 1) * step + 1 }
            })
            .collect();
        let outer: Vec<usize> = self.order.iter().map(|&i| room[i]).collect();
        let small: Vec<usize> = (0..shape.len()).map(stored).collect();
        // How many elements of memory a step along each axis of the array goes, and the first's place.
        let mut strides = vec![0isize; shape.len()];
        let (mut first, mut step) = (0, 1);
        for &i in self.order.iter().rev() {
            let axis = self.axes[i];
            let along = (step * axis.step) as isize;
            let last = axis.step * small[i].saturating_sub(1);
            strides[i] = if axis.flipped { -along } else { along };
            first += step * (axis.before + if axis.flipped { last } else { 0 });
            step *= room[i];
        }
        let mut places = Vec::new();
        walk(&small, |index| {
            let steps = index.iter().zip(&strides).map(|(&k, &s)| k as isize * s);
            let to = first as isize + steps.sum::<isize>();
            places.push((to as usize, ravel(index, shape)));
        });
        let room_len: usize = outer.iter().product();
        let values = match &array.values {
            Values::Floats(v) => {
                let mut memory = vec![f64::NAN; room_len];
                places.iter().for_each(|&(to, from)| memory[to] = v[from]);
                Values::Floats(memory)
            }
            Values::Integers(v) => {
                let mut memory = vec![array.dtype.integer_range().1; room_len];
                places.iter().for_each(|&(to, from)| memory[to] = v[from]);
                Values::Integers(memory)
            }
        };
        let mut x = tensor_of(&values, &outer, array.dtype);
        let mut back = vec![0; shape.len()];
        for (at, &i) in self.order.iter().enumerate() {
            back[i] = at as i64;
        }
        x = view("transpose", &x, Params::new().with("axes", back));
        for (i, axis) in self.axes.iter().enumerate() {
            let stop = axis.before + if small[i] == 0 { 0 } else { (small[i] - 1) * axis.step + 1 };
            if room[i] != small[i] {
                let params = Params::new()
                    .with("axis", i as i64)
                    .with("start", axis.before as i64)
                    .with("stop", stop as i64)
                    .with("step", axis.step as i64);
                x = view("slice", &x, params);
            }
            if axis.flipped {
                x = view("flip", &x, Params::new().with("axis", [i as i64]));
            }
        }
        if small != *shape {
            let to: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
            x = view("broadcast_to", &x, Params::new().with("shape", to));
        }
        x
    }
}

fn view(name: &str, x: &Tensor, params: Params) -> Tensor {
    let record = catalogue::find(name).expect("an operation that makes views");
    let outputs = record.call(&[x], &params);
    let y = outputs.unwrap_or_else(|error| panic!("{error}")).swap_remove(0);
    assert!(y.is_empty() || y.shares_memory_with(x), "{name} copies");
    y
}
