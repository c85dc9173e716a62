//! The types of a tensor's elements.

use crate::{Error, Result};
use extensor_kernels::native::Native;
use half::{bf16, f16};
use std::fmt;

/// The type of a tensor's elements, chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// True or false, one byte each.
    Bool,
    /// 8-bit signed.
    I8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 64-bit unsigned.
    U64,
    /// IEEE half precision: 11 bits of mantissa, largest value 65504.
    F16,
    /// bfloat16: 8 bits of mantissa, the range of `f32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// What an element type can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Masks.
    Bool,
    /// Whole numbers, signed or not.
    Int,
    /// Numbers that functions can be differentiated by.
    Float,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];
    /// The float types, narrowest first.
    pub const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
    /// The whole-number types.
    pub const INTS: [DType; 8] = [
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    /// Its name: `"f32"`, `"bool"`, …
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// Bool, int or float.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self {
            DType::Bool => Kind::Bool,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Kind::Float,
            _ => Kind::Int,
        }
    }

    /// Whether it is a float type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Whether it is a whole-number type.
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Int)
    }

    const fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// The smallest and largest value of a whole-number type (0 and 1 for bool).
    pub const fn integer_range(self) -> (i128, i128) {
        let bits = 8 * self.size() as u32;
        match self {
            DType::Bool => (0, 1),
            _ if self.is_unsigned() => (0, (1i128 << bits) - 1),
            _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        }
    }

    /// The largest finite value of a float type (infinity for the others, which do not round).
    pub const fn max_finite(self) -> f64 {
        match self {
            DType::F16 => 65504.0,
            DType::BF16 => 3.3895313892515355e38,
            DType::F32 => f32::MAX as f64,
            DType::F64 => f64::MAX,
            _ => f64::INFINITY,
        }
    }

    /// The bits of infinity in a float type.
    pub(crate) fn infinity_bits(self) -> u64 {
        match self {
            DType::F16 => 0x7C00,
            DType::BF16 => 0x7F80,
            DType::F32 => f32::INFINITY.to_bits().into(),
            _ => f64::INFINITY.to_bits(),
        }
    }

    /// The distance from 1 to the next larger value of a float type (0 for the others).
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F16 => 9.765625e-4,
            DType::BF16 => 7.8125e-3,
            DType::F32 => f32::EPSILON as f64,
            DType::F64 => f64::EPSILON,
            _ => 0.0,
        }
    }

    /// The type that holds values of both, by the Array API standard's table: within a kind only.
    /// (`f16` with `bf16` gives `f32`; a signed type with `u64` gives nothing.)
    pub fn promote(self, other: DType) -> Option<DType> {
        if self == other {
            return Some(self);
        }
        if self.kind() != other.kind() {
            return None;
        }
        let (narrow, wide) =
            if self.size() <= other.size() { (self, other) } else { (other, self) };
        if wide.is_float() {
            return Some(if narrow.size() == wide.size() { DType::F32 } else { wide });
        }
        if narrow.is_unsigned() == wide.is_unsigned() {
            return Some(wide);
        }
        if narrow.is_unsigned() && wide.size() > narrow.size() {
            return Some(wide);
        }
        // The unsigned one is at least as wide: the next wider signed type holds both.
        match wide.size() {
            1 => Some(DType::I16),
            2 => Some(DType::I32),
            4 => Some(DType::I64),
            _ => None,
        }
    }

    pub(crate) fn expect_float(self, op: &'static str, argument: &'static str) -> Result<()> {
        if self.is_float() {
            return Ok(());
        }
        Err(Error::DType {
            op,
            argument,
            expected: "a float type (f16, bf16, f32, f64)",
            got: self,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be an element of a tensor.
pub trait Element: sealed::Sealed + Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// How it is called at run time.
    const DTYPE: DType;
    /// The type its values have in a buffer (`bool` is stored as a byte).
    type Stored: Native;
    /// To the stored form.
    fn store(self) -> Self::Stored;
    /// From the stored form.
    fn load(stored: Self::Stored) -> Self;
    /// A vector in stored form, without copying where the forms are the same.
    fn store_all(values: Vec<Self>) -> Vec<Self::Stored>;
}

macro_rules! element {
    ($($t:ty = $dtype:ident),*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            type Stored = $t;
            #[inline(always)]
            fn store(self) -> $t {
                self
            }
            #[inline(always)]
            fn load(stored: $t) -> $t {
                stored
            }
            fn store_all(values: Vec<$t>) -> Vec<$t> {
                values
            }
        }
    )*};
}

element!(i8 = I8, i16 = I16, i32 = I32, i64 = I64, u8 = U8, u16 = U16, u32 = U32, u64 = U64);
element!(f16 = F16, bf16 = BF16, f32 = F32, f64 = F64);

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    type Stored = u8;
    #[inline(always)]
    fn store(self) -> u8 {
        u8::from(self)
    }
    #[inline(always)]
    fn load(stored: u8) -> bool {
        stored != 0
    }
    fn store_all(values: Vec<bool>) -> Vec<u8> {
        values.into_iter().map(u8::from).collect()
    }
}

/// Runs the expression with `$T` standing for the storage type of a float dtype; other dtypes give
/// the expression after `else`.
macro_rules! match_float {
    ($dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        match $dtype {
            $crate::DType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
            _ => $other,
        }
    };
}

/// Likewise for whole-number dtypes, as wrapping integers.
macro_rules! match_int {
    ($dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        match $dtype {
            $crate::DType::I8 => {
                type $T = std::num::Wrapping<i8>;
                $body
            }
            $crate::DType::I16 => {
                type $T = std::num::Wrapping<i16>;
                $body
            }
            $crate::DType::I32 => {
                type $T = std::num::Wrapping<i32>;
                $body
            }
            $crate::DType::I64 => {
                type $T = std::num::Wrapping<i64>;
                $body
            }
            $crate::DType::U8 => {
                type $T = std::num::Wrapping<u8>;
                $body
            }
            $crate::DType::U16 => {
                type $T = std::num::Wrapping<u16>;
                $body
            }
            $crate::DType::U32 => {
                type $T = std::num::Wrapping<u32>;
                $body
            }
            $crate::DType::U64 => {
                type $T = std::num::Wrapping<u64>;
                $body
            }
            _ => $other,
        }
    };
}

/// Runs the expression with `$T` standing for an unsigned integer of the element's size: for moving
/// elements without looking at them.
macro_rules! match_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}

/// Runs the expression with `$T` standing for a wrapping integer of the dtype's size: sums and
/// products of signed and unsigned numbers have the same bits.
macro_rules! match_words {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = std::num::Wrapping<u8>;
                $body
            }
            2 => {
                type $T = std::num::Wrapping<u16>;
                $body
            }
            4 => {
                type $T = std::num::Wrapping<u32>;
                $body
            }
            _ => {
                type $T = std::num::Wrapping<u64>;
                $body
            }
        }
    };
}

pub(crate) use {match_bits, match_float, match_int, match_words};
