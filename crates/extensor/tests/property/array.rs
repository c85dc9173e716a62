//! Dense arrays read index by index, and what may be expected of a result.

use extensor::{DType, Tensor};
use half::{bf16, f16};

/// The elements of an array in row-major order: all floats, or all whole numbers (and masks).
#[derive(Clone, Debug)]
pub enum Values {
    Floats(Vec<f64>),
    Integers(Vec<i128>),
}

/// An array in a tensor's dtype, as the reference sees it.
#[derive(Clone, Debug)]
pub struct Array {
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub values: Values,
}

impl Array {
    pub fn floats(&self) -> &[f64] {
        match &self.values {
            Values::Floats(v) => v,
            Values::Integers(_) => panic!("these are whole numbers"),
        }
    }

    pub fn integers(&self) -> &[i128] {
        match &self.values {
            Values::Integers(v) => v,
            Values::Floats(_) => panic!("these are floats"),
        }
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// What the tensor holds, read through its indices.
    pub fn read(x: &Tensor) -> Array {
        fn all<E: extensor::Element>(x: &Tensor) -> Vec<E> {
            x.to_vec::<E>().expect("the tensor's own dtype")
        }
        macro_rules! integers {
            ($t:ty) => {
                Values::Integers(all::<$t>(x).into_iter().map(i128::from).collect())
            };
        }
        let values = match x.dtype() {
            DType::Bool => integers!(bool),
            DType::I8 => integers!(i8),
            DType::I16 => integers!(i16),
            DType::I32 => integers!(i32),
            DType::I64 => integers!(i64),
            DType::U8 => integers!(u8),
            DType::U16 => integers!(u16),
            DType::U32 => integers!(u32),
            DType::U64 => integers!(u64),
            DType::F16 => Values::Floats(all::<f16>(x).iter().map(|v| v.to_f64()).collect()),
            DType::BF16 => Values::Floats(all::<bf16>(x).iter().map(|v| v.to_f64()).collect()),
            DType::F32 => Values::Floats(all::<f32>(x).into_iter().map(f64::from).collect()),
            DType::F64 => Values::Floats(all::<f64>(x)),
        };
        Array { shape: x.shape().to_vec(), dtype: x.dtype(), values }
    }
}

/// A row-major tensor of these values, which the dtype holds exactly.
pub fn tensor_of(values: &Values, shape: &[usize], dtype: DType) -> Tensor {
    macro_rules! make {
        ($v:expr, $map:expr) => {
            Tensor::from_vec($v.iter().map($map).collect(), shape)
        };
    }
    let made = match values {
        Values::Floats(v) => match dtype {
            DType::F16 => make!(v, |&x| f16::from_f64(x)),
            DType::BF16 => make!(v, |&x| bf16::from_f64(x)),
            DType::F32 => make!(v, |&x| x as f32),
            _ => make!(v, |&x| x),
        },
        Values::Integers(v) => match dtype {
            DType::Bool => make!(v, |&x| x != 0),
            DType::I8 => make!(v, |&x| x as i8),
            DType::I16 => make!(v, |&x| x as i16),
            DType::I32 => make!(v, |&x| x as i32),
            DType::I64 => make!(v, |&x| x as i64),
            DType::U8 => make!(v, |&x| x as u8),
            DType::U16 => make!(v, |&x| x as u16),
            DType::U32 => make!(v, |&x| x as u32),
            _ => make!(v, |&x| x as u64),
        },
    };
    made.expect("as many values as the shape has")
}

/// The nearest value that the dtype holds, of two equally near ones the even one.
pub fn round_to(x: f64, dtype: DType) -> f64 {
    // Digits of the mantissa, and the exponent of the smallest number that has all of them.
    let (digits, least) = match dtype {
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        DType::F32 => return f64::from(x as f32),
        _ => return x,
    };
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let unit = 2f64.powi(exponent.max(least) - digits + 1);
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() > dtype.max_finite() { f64::INFINITY.copysign(x) } else { rounded }
}

/// The nearest value that a float dtype holds to a whole number of up to 64 bits.
pub fn round_integer(x: i128, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => x as f64,
        DType::F32 => f64::from(x as f32),
        _ if x.unsigned_abs() < 1 << 53 => round_to(x as f64, dtype),
        // Rounded to odd in the twelve last bits, a second rounding finds the right side of a tie.
        _ => round_to(((x >> 12) | i128::from(x & 0xfff != 0)) as f64 * 4096.0, dtype),
    }
}

/// The precision that the dtype is computed in: reduced ones go through `f32`.
pub fn working(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The smallest positive number of the precision a dtype is computed in.
pub fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(1),
        DType::F32 => f64::from(f32::from_bits(1)),
        DType::BF16 => f64::from(f32::from_bits(1 << 16)),
        _ => 2f64.powi(-24),
    }
}

/// The most that one rounding to the dtype moves `x`.
pub fn half_ulp(x: f64, dtype: DType) -> f64 {
    (x.abs() * dtype.epsilon() + tiny(dtype)) / 2.0
}

/// Whole numbers wrap around.
pub fn wrap(x: i128, dtype: DType) -> i128 {
    let (low, high) = dtype.integer_range();
    let modulus = high - low + 1;
    // Moduli are powers of two: what overflows 128 bits on the way does not matter.
    x.wrapping_sub(low).rem_euclid(modulus) + low
}

/// A float with how far a correct computation may be from it before its last rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    pub value: f64,
    pub error: f64,
}

impl Near {
    pub fn exact(value: f64) -> Near {
        Near { value, error: 0.0 }
    }
}

/// What an operation should give.
#[derive(Clone, Debug)]
pub struct Expected {
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub values: Wanted,
}

#[derive(Clone, Debug)]
pub enum Wanted {
    Floats(Vec<Near>),
    Integers(Vec<i128>),
}

/// Every index of a shape, in row-major order.
pub fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let len: usize = shape.iter().product();
    (0..len).map(|i| unravel(i, shape))
}

/// Calls `visit` with every index of a shape, in row-major order.
pub fn walk(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..shape.iter().product::<usize>() {
        visit(&index);
        for (i, &size) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < size {
                break;
            }
            *i = 0;
        }
    }
}

/// The index of element number `at`.
pub fn unravel(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = at % size;
        at /= size;
    }
    index
}

/// The number of the element at an index.
pub fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + i)
}

/// The number of an operand's element that an index of the broadcast shape stands for.
pub fn ravel_broadcast(index: &[usize], shape: &[usize]) -> usize {
    let skip = index.len() - shape.len();
    let own = index[skip..].iter().zip(shape);
    own.fold(0, |at, (&i, &n)| at * n + if n == 1 { 0 } else { i })
}

/// NumPy's rule.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Vec<usize> {
    let n = a.len().max(b.len());
    let size = |s: &[usize], i: usize| (i + s.len()).checked_sub(n).map_or(1, |k| s[k]);
    (0..n)
        .map(|i| match (size(a, i), size(b, i)) {
            (1, y) => y,
            (x, _) => x,
        })
        .collect()
}

/// A sum that keeps what each addition rounds off, with the sizes of its terms.
#[derive(Clone, Copy, Default)]
pub struct Sum {
    total: f64,
    lost: f64,
    /// The sum of the magnitudes of the terms.
    pub size: f64,
    /// How many terms there are.
    pub count: usize,
}

impl Sum {
    pub fn add(&mut self, x: f64) {
        let t = self.total + x;
        if t.is_finite() {
            self.lost += if self.total.abs() >= x.abs() {
                (self.total - t) + x
            } else {
                (x - t) + self.total
            };
        } else {
            self.lost = 0.0;
        }
        self.total = t;
        self.size += x.abs();
        self.count += 1;
    }

    /// `a · b`, without rounding the product.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let p = a * b;
        self.add(p);
        let rest = a.mul_add(b, -p);
        if rest.is_finite() {
            self.lost += rest;
        }
    }

    pub fn value(&self) -> f64 {
        self.total + self.lost
    }
}
