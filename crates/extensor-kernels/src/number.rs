//! What a formula may say of its variables.
//!
//! Operations are written once, as functions generic over [`Number`] (everything, whole numbers
//! included) or [`Real`]. `f32` and `f64` implement them with branch-free code, so that a loop over a
//! formula vectorises; other things that can follow a formula (a symbol that records it, say) can
//! implement them too, which is why constants are made from a value at hand ([`Number::lit`]) and
//! comparisons give a [`Number::Mask`] and not a `bool`.

use crate::math;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// What arithmetic formulas are made of.
pub trait Number:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// The result of a comparison.
    type Mask: Copy
        + BitAnd<Output = Self::Mask>
        + BitOr<Output = Self::Mask>
        + Not<Output = Self::Mask>;

    /// The constant `c`, of the kind of `self`.
    fn lit(self, c: f64) -> Self;
    /// `self == other`.
    fn eq(self, other: Self) -> Self::Mask;
    /// `self < other`.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`.
    fn le(self, other: Self) -> Self::Mask;
    /// `if mask { a } else { b }`.
    fn select(mask: Self::Mask, a: Self, b: Self) -> Self;
    /// `|self|`.
    fn abs(self) -> Self;
    /// The larger; NaN if either is.
    fn maximum(self, other: Self) -> Self;
    /// The smaller; NaN if either is.
    fn minimum(self, other: Self) -> Self;
    /// The quotient rounded towards -infinity.
    fn floor_divide(self, other: Self) -> Self;
    /// `self - other * floor(self / other)`: has the sign of the divisor.
    fn modulo(self, other: Self) -> Self;
    /// `selfⁿ`.
    fn pow(self, n: Self) -> Self;

    /// `self > other`.
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// `self >= other`.
    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }
    /// `|self|` in a formula of a function that is smooth where `self` changes its sign. It is
    /// differentiated as the branch that 0 belongs to, `self >= 0`; the formula must choose that
    /// branch there too.
    #[inline(always)]
    fn size(self) -> Self {
        self.abs()
    }
    /// -1, 0 or 1 (NaN for NaN).
    #[inline(always)]
    fn sign(self) -> Self {
        let zero = self.lit(0.0);
        let one = self.lit(1.0);
        let signed =
            Self::select(self.lt(zero), zero - one, Self::select(zero.lt(self), one, self));
        Self::select(self.eq(zero), zero, signed)
    }
}

/// Calls a macro with the functions of one real number, of which this is the one list: how a machine
/// number computes it, what it is, its name as an instruction of a program, and as a method.
///
/// `std` has it, or [`math`]; of `trig` there is a second way for small arguments ([`Lane`]); what is
/// `composed` has a formula of its own in [`Real`].
macro_rules! functions {
    ($callback:ident $($argument:tt)*) => {
        $callback! { $($argument)*
            [std] "`√x`." Sqrt sqrt;
            [std] "The integer at or below." Floor floor;
            [std] "The integer at or above." Ceil ceil;
            [std] "The nearest integer, ties to even." Round round;
            [std] "The integer part." Trunc trunc;
            [math] "`eˣ`." Exp exp;
            [math] "`2ˣ`." Exp2 exp2;
            [math] "`eˣ - 1`." Expm1 expm1;
            [math] "`ln x`." Log log;
            [math] "`ln(1 + x)`." Log1p log1p;
            [math] "`log₂ x`." Log2 log2;
            [math] "`log₁₀ x`." Log10 log10;
            [math] "`∛x`." Cbrt cbrt;
            [math] "`sin πx`." SinPi sin_pi;
            [math] "`cos πx`." CosPi cos_pi;
            [trig] "Sine." Sin sin;
            [trig] "Cosine." Cos cos;
            [trig] "Tangent." Tan tan;
            [math] "Inverse sine." Asin asin;
            [math] "Inverse cosine." Acos acos;
            [math] "Inverse tangent." Atan atan;
            [math] "Hyperbolic sine." Sinh sinh;
            [math] "Hyperbolic cosine." Cosh cosh;
            [math] "Hyperbolic tangent." Tanh tanh;
            [math] "Inverse hyperbolic sine." Asinh asinh;
            [math] "Inverse hyperbolic cosine." Acosh acosh;
            [math] "Inverse hyperbolic tangent." Atanh atanh;
            [math] "The error function, `2/√π ∫₀ˣ e^(-t²) dt`." Erf erf;
            [math] "`1 - erf(x)`." Erfc erfc;
            [math] "The inverse of the error function." Erfinv erfinv;
            [math] "The derivative of that, `½√π e^(y²)`." ErfinvSlope erfinv_slope;
            [math] "The normal distribution function, `Φ(x) = erfc(-x/√2) / 2`." Ndtr ndtr;
            [math] "The inverse of `Φ`." Ndtri ndtri;
            [math] "The derivative of that, `√(2π) e^(y²/2)`." NdtriSlope ndtri_slope;
            [math] "`ln Φ(x)`." LogNdtr log_ndtr;
            [math] "Its derivative, `e^(−x²/2)/(√(2π) Φ(x))`." LogNdtrSlope log_ndtr_slope;
            [math] "Its second derivative." LogNdtrBend log_ndtr_bend;
            [math] "The modified Bessel function `I₀(x)`." I0 i0;
            [math] "Its derivative, `I₁(x)`." I1 i1;
            [math] "The derivative of that." I1Slope i1_slope;
            [math] "`e^−|x| I₀(x)`." I0e i0e;
            [math] "The derivative of that, 0 at 0." I0eSlope i0e_slope;
            [math] "`e^−|x| I₁(x)`." I1e i1e;
            [math] "The derivative of that." I1eSlope i1e_slope;
            [math] "`ln |Γ(x)|`." Lgamma lgamma;
            [math] "Its derivative `ψ(x)`." Digamma digamma;
            [math] "`1 / (1 + e⁻ˣ)`." Sigmoid sigmoid;
            [math] "`ln(1 + eˣ)`." Softplus softplus;
            [math] "`x Φ(x)` with the normal distribution function `Φ(x) = erfc(-x/√2) / 2`." Gelu gelu;
            [math] "Its derivative, `Φ(x) + x Φ′(x)`." GeluSlope gelu_slope;
            [composed] "`e^(−x²)`, to full precision where the square is large too." Bell bell;
            [composed] "`e^(−x²/2)`, likewise." WideBell wide_bell;
        }
    };
}
pub(crate) use functions;

/// The methods of [`Real`] that have no formula there.
macro_rules! declare {
    ($([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {
        $(declare!(@ $kind $doc $method);)*
    };
    (@ composed $doc:literal $method:ident) => {};
    (@ $kind:ident $doc:literal $method:ident) => {
        #[doc = $doc]
        fn $method(self) -> Self;
    };
}

/// The functions of one machine number.
macro_rules! machine {
    ($t:ty; $([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {
        $(machine!(@ $kind $t, $method);)*
    };
    (@ composed $t:ty, $method:ident) => {};
    (@ std $t:ty, round) => { machine!(@ as round, <$t>::round_ties_even); };
    (@ std $t:ty, $method:ident) => { machine!(@ as $method, <$t>::$method); };
    (@ as $method:ident, $function:expr) => {
        #[inline(always)]
        fn $method(self) -> Self {
            $function(self)
        }
    };
    (@ $kind:ident $t:ty, $method:ident) => { machine!(@ as $method, math::$method); };
}

/// The functions of a machine number in a [`Lane`].
macro_rules! in_lane {
    ($([$kind:ident] $doc:literal $name:ident $method:ident;)*) => {
        $(in_lane!(@ $kind $method);)*
    };
    (@ composed $method:ident) => {};
    (@ trig sin) => { in_lane!(@ as sin, math::sin_lane); };
    (@ trig cos) => { in_lane!(@ as cos, math::cos_lane); };
    (@ trig tan) => { in_lane!(@ as tan, math::tan_lane); };
    (@ as $method:ident, $function:expr) => {
        #[inline(always)]
        fn $method(self) -> Self {
            Lane($function(self.0))
        }
    };
    (@ $kind:ident $method:ident) => { in_lane!(@ as $method, Real::$method); };
}

/// Functions of one number of which there are derivatives of every order, each as near the truth as the
/// function itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smooth {
    /// `ψ(x)`, the derivative of `ln |Γ(x)|`.
    Psi,
    /// The modified Bessel function `I₀(x)`.
    I0,
    /// `e^−|x| I₀(x)`, of whose odd derivatives that at 0 is 0.
    I0e,
    /// `ln Φ(x)`.
    LogNdtr,
}

/// What formulas over the real numbers are made of.
pub trait Real: Number + Div<Output = Self> {
    /// `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// The angle of the point `(x, self)`.
    fn atan2(self, x: Self) -> Self;
    /// `√(self² + other²)`, without overflow on the way.
    fn hypot(self, other: Self) -> Self;
    /// The derivative number `n` of a function, from the first on.
    fn nth_derivative(self, of: Smooth, n: u8) -> Self;
    functions!(declare);
    /// Whether it is not a number.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        !self.eq(self)
    }
    /// `self` where it is NaN, `other` elsewhere: so it is of derivatives too.
    #[inline(always)]
    fn nan_or(self, other: Self) -> Self {
        Self::select(self.is_nan(), self, other)
    }
    /// `self * factor`, where zero times anything is zero: 0 · ∞ is 0.
    #[inline(always)]
    fn times(self, factor: Self) -> Self {
        let product = self * factor;
        let invented = product.is_nan() & !self.is_nan() & !factor.is_nan();
        Self::select(invented, self.lit(0.0), product)
    }
    /// `self`, but where `at` is true no larger than `limit`: so it is of derivatives too.
    #[inline(always)]
    fn capped(self, at: Self::Mask, limit: f64) -> Self {
        let limit = self.lit(limit);
        Self::select(at & limit.lt(self.abs()), limit.copysign(self), self)
    }
    /// `self`, which is the same number as `smooth` but was computed in a way that should not be
    /// differentiated (it selects, or cancels what is lost by rounding): derivatives are those of
    /// `smooth`, which machine numbers never compute.
    #[inline(always)]
    fn like(self, _smooth: impl FnOnce() -> Self) -> Self {
        self
    }
    /// Whether it is neither infinite nor NaN.
    #[inline(always)]
    fn is_finite(self) -> Self::Mask {
        self.abs().lt(self.lit(f64::INFINITY))
    }
    /// `q·xⁿ⁻ᵐ`: what the derivatives of powers are, by either variable and of any order. The
    /// exponent is never rounded, and nothing is lost where `xⁿ` overflows or vanishes and this does
    /// not. At 0, where a negative power would be infinite, `x` is ±1e-10.
    #[inline(always)]
    fn power_times(self, n: Self, q: Self, m: u8) -> Self {
        let (zero, most) = (self.lit(0.0), self.lit(f64::from(m)));
        // −0 has real powers, but its stand-in −1e-10 has only whole ones.
        let least = self.lit(1e-10);
        let least = Self::select(n.floor().eq(n), least.copysign(self), least);
        // From here on an exponent less one is rounded, and (−1)ⁿ⁻¹ with it.
        let whole = self.abs().lt(self.lit(2.0)) & self.lit(16_777_215.0).lt(n);
        let x = Self::select(self.eq(zero) & (n.lt(most) | whole), least, self);
        // So much can be taken from the exponent exactly, and leaves a power that neither overflows
        // nor vanishes; the rest are divisions.
        let taken = Self::select(whole, zero, n.round().maximum(zero).minimum(most));
        let power = x.pow(n - taken);
        if m == 0 {
            return q.times(power);
        }
        // One of them comes first where the product would overflow without it, or lose digits.
        let (one, small) = (self.lit(1.0), q.abs().lt(self.lit(1e-18)));
        let large = one.lt(x.abs()) & one.lt(q.abs());
        let first = taken.lt(most) & (large | x.abs().lt(one) & small);
        let mut value = Self::select(first, q / x, q).times(power);
        let done = Self::select(first, taken + one, taken);
        let mut k = 0;
        while k < m {
            value = Self::select((done + self.lit(f64::from(k))).lt(most), value / x, value);
            k += 1;
        }
        value
    }
    /// `e^(−x²)`, to full precision where the square is large too.
    #[inline(always)]
    fn bell(self) -> Self {
        exp_of_square(self, -1.0)
    }
    /// `e^(−x²/2)`, likewise.
    #[inline(always)]
    fn wide_bell(self) -> Self {
        exp_of_square(self, -0.5)
    }
}

/// `e^(factor·x²)` for a power of 2, with what the square loses by rounding.
#[inline(always)]
fn exp_of_square<R: Real>(x: R, factor: f64) -> R {
    // Beyond, nothing is left; the square must not be infinite.
    let (x, factor) = (x.maximum(x.lit(-60.0)).minimum(x.lit(60.0)), x.lit(factor));
    let square = x * x;
    let lost = x.mul_add(x, -square);
    let e = (factor * square).exp();
    (factor * lost).mul_add(e, e)
}

macro_rules! number_for_float {
    ($t:ty) => {
        impl Number for $t {
            type Mask = bool;
            #[inline(always)]
            fn lit(self, c: f64) -> Self {
                c as $t
            }
            #[inline(always)]
            fn eq(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn lt(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn le(self, other: Self) -> bool {
                self <= other
            }
            #[inline(always)]
            fn select(mask: bool, a: Self, b: Self) -> Self {
                if mask { a } else { b }
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$t>::abs(self)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                let larger = if self > other { self } else { other };
                if self.is_nan() { self } else { larger }
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                let smaller = if self < other { self } else { other };
                if self.is_nan() { self } else { smaller }
            }
            #[inline(always)]
            fn floor_divide(self, other: Self) -> Self {
                math::floor_divide(self, other)
            }
            #[inline(always)]
            fn modulo(self, other: Self) -> Self {
                math::modulo(self, other)
            }
            #[inline(always)]
            fn pow(self, n: Self) -> Self {
                math::pow(self, n)
            }
        }

        impl Real for $t {
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                <$t>::mul_add(self, b, c)
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                <$t>::copysign(self, sign)
            }
            #[inline(always)]
            fn atan2(self, x: Self) -> Self {
                math::atan2(self, x)
            }
            #[inline(always)]
            fn hypot(self, other: Self) -> Self {
                math::hypot(self, other)
            }
            #[inline(always)]
            fn nth_derivative(self, of: Smooth, n: u8) -> Self {
                match of {
                    Smooth::Psi => math::polygamma(self, n),
                    Smooth::I0 => math::i0_derivative(self, n),
                    Smooth::I0e => math::i0e_derivative(self, n),
                    Smooth::LogNdtr => math::log_ndtr_derivative(self, n),
                }
            }
            functions!(machine $t;);
        }
    };
}

number_for_float!(f32);
number_for_float!(f64);

/// `f32` or `f64` in a loop that has already seen that every argument of a trigonometric function
/// is small enough for the branch-free reduction.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Lane<T>(pub T);

macro_rules! lane {
    ($t:ty) => {
        impl Add for Lane<$t> {
            type Output = Self;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Lane(self.0 + other.0)
            }
        }
        impl Sub for Lane<$t> {
            type Output = Self;
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Lane(self.0 - other.0)
            }
        }
        impl Mul for Lane<$t> {
            type Output = Self;
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Lane(self.0 * other.0)
            }
        }
        impl Div for Lane<$t> {
            type Output = Self;
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Lane(self.0 / other.0)
            }
        }
        impl Neg for Lane<$t> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Lane(-self.0)
            }
        }
        impl Number for Lane<$t> {
            type Mask = bool;
            #[inline(always)]
            fn lit(self, c: f64) -> Self {
                Lane(c as $t)
            }
            lane!(@mask eq lt le);
            #[inline(always)]
            fn select(mask: bool, a: Self, b: Self) -> Self {
                if mask { a } else { b }
            }
            lane!(@unary Number: abs);
            lane!(@binary Number: maximum minimum floor_divide modulo pow);
        }
        impl Real for Lane<$t> {
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                Lane(self.0.mul_add(b.0, c.0))
            }
            lane!(@binary Real: copysign atan2 hypot);
            #[inline(always)]
            fn nth_derivative(self, of: Smooth, n: u8) -> Self {
                Lane(self.0.nth_derivative(of, n))
            }
            functions!(in_lane);
        }
    };
    (@mask $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> bool {
            Number::$name(self.0, other.0)
        }
    )*};
    (@unary $trait:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            Lane($trait::$name(self.0))
        }
    )*};
    (@binary $trait:ident: $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            Lane($trait::$name(self.0, other.0))
        }
    )*};
}

lane!(f32);
lane!(f64);

macro_rules! number_for_int {
    ($($t:ident: $abs:ident),*) => {$(
        /// Whole numbers wrap around on overflow. Division by 0 gives 0 here: callers that can
        /// return an error look for zero divisors first.
        impl Number for Wrapping<$t> {
            type Mask = bool;
            #[inline(always)]
            fn lit(self, c: f64) -> Self {
                Wrapping(c as $t)
            }
            #[inline(always)]
            fn eq(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn lt(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn le(self, other: Self) -> bool {
                self <= other
            }
            #[inline(always)]
            fn select(mask: bool, a: Self, b: Self) -> Self {
                if mask { a } else { b }
            }
            #[inline(always)]
            fn abs(self) -> Self {
                number_for_int!(@$abs self)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn floor_divide(self, other: Self) -> Self {
                if other.0 == 0 { Wrapping(0) } else { number_for_int!(@$abs floor_divide self other) }
            }
            #[inline(always)]
            fn modulo(self, other: Self) -> Self {
                self - other * self.floor_divide(other)
            }
            #[inline(always)]
            fn pow(self, n: Self) -> Self {
                // By squaring; callers that can return an error look for negative exponents first.
                let (mut result, mut base, mut n) = (Wrapping(1), self, n.0);
                while n > 0 {
                    if n & 1 == 1 {
                        result *= base;
                    }
                    base *= base;
                    n >>= 1;
                }
                result
            }
        }
    )*};
    (@signed $x:ident) => { Wrapping($x.0.wrapping_abs()) };
    (@unsigned $x:ident) => { $x };
    (@unsigned floor_divide $a:ident $b:ident) => { Wrapping($a.0 / $b.0) };
    (@signed floor_divide $a:ident $b:ident) => {{
        // Truncated towards 0: one step down where something remains and the signs differ.
        let (q, r) = ($a.0.wrapping_div($b.0), $a.0.wrapping_rem($b.0));
        Wrapping(if r != 0 && (r < 0) != ($b.0 < 0) { q - 1 } else { q })
    }};
}

number_for_int!(i8: signed, i16: signed, i32: signed, i64: signed);
number_for_int!(u8: unsigned, u16: unsigned, u32: unsigned, u64: unsigned);
