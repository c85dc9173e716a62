//! Numbers as the unevaluated sum of two floats, which have about twice the digits of one.

use super::Float;

/// The number `hi + lo`, where `lo` is at most a few units in the last place of `hi`.
#[derive(Clone, Copy, Debug)]
pub struct Dd<F> {
    /// The number, nearly.
    pub hi: F,
    /// What it lacks.
    pub lo: F,
}

/// `a + b`, exactly.
#[inline(always)]
pub fn two_sum<F: Float>(a: F, b: F) -> Dd<F> {
    let hi = a + b;
    let part = hi - a;
    let lo = (a - (hi - part)) + (b - part);
    Dd { hi, lo }
}

/// `a + b`, exactly, where `a` is zero or `|a| >= |b|`.
#[inline(always)]
pub fn fast_two_sum<F: Float>(a: F, b: F) -> Dd<F> {
    let hi = a + b;
    let lo = b - (hi - a);
    Dd { hi, lo }
}

/// `a * b`, exactly unless `lo` underflows.
#[inline(always)]
pub fn two_prod<F: Float>(a: F, b: F) -> Dd<F> {
    let hi = a * b;
    let lo = a.fma(b, -hi);
    Dd { hi, lo }
}

impl<F: Float> Dd<F> {
    /// `hi + lo` as it stands.
    #[inline(always)]
    pub fn new(hi: F, lo: F) -> Self {
        Dd { hi, lo }
    }

    /// The nearest float.
    #[inline(always)]
    pub fn value(self) -> F {
        self.hi + self.lo
    }

    /// The same number with `hi` the nearest float to it.
    #[inline(always)]
    pub fn renormalized(self) -> Self {
        fast_two_sum(self.hi, self.lo)
    }

    /// `a + self` where `a` is zero or `|a| >= |self|`.
    #[inline(always)]
    pub fn added_to(self, a: F) -> Self {
        let sum = fast_two_sum(a, self.hi);
        Dd::new(sum.hi, sum.lo + self.lo)
    }

    /// `self + b` for a `b` that may be larger or smaller.
    #[inline(always)]
    pub fn plus(self, b: Self) -> Self {
        let sum = two_sum(self.hi, b.hi);
        Dd::new(sum.hi, sum.lo + (self.lo + b.lo))
    }

    /// `self * b`.
    #[inline(always)]
    pub fn times(self, b: Self) -> Self {
        let product = two_prod(self.hi, b.hi);
        let lo = self.hi.fma(b.lo, self.lo.fma(b.hi, product.lo));
        Dd::new(product.hi, lo)
    }

    /// `self * b` where `b` is a power of two, exactly unless it underflows.
    #[inline(always)]
    pub fn scaled(self, b: F) -> Self {
        Dd::new(self.hi * b, self.lo * b)
    }

    /// `self / b` by one division.
    #[inline(always)]
    pub fn over(self, b: Self) -> Self {
        let inverse = F::lit(1.0) / b.hi;
        let hi = self.hi * inverse;
        let rest = (-hi).fma(b.hi, self.hi) + (-hi).fma(b.lo, self.lo);
        Dd::new(hi, rest * inverse)
    }

    /// The square root of a positive number.
    #[inline(always)]
    pub fn sqrt(self) -> Self {
        let hi = self.hi.sqrt();
        let rest = (-hi).fma(hi, self.hi) + self.lo;
        Dd::new(hi, rest / (hi + hi))
    }

    /// `if condition { a } else { b }` with both evaluated.
    #[inline(always)]
    pub fn select(condition: bool, a: Self, b: Self) -> Self {
        Dd::new(F::select(condition, a.hi, b.hi), F::select(condition, a.lo, b.lo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products_lose_nothing() {
        let (a, b) = (1.0_f32 / 3.0, 1e-5_f32 / 7.0);
        for sum in [two_sum(a, b), two_sum(b, a), fast_two_sum(a, b)] {
            assert_eq!(sum.hi as f64 + sum.lo as f64, a as f64 + b as f64);
        }
        let product = two_prod(a, b);
        assert_eq!(product.hi as f64 + product.lo as f64, a as f64 * b as f64);
    }

    #[test]
    fn quotients_and_roots_have_twice_the_digits() {
        let (a, b) = (Dd::new(5.0_f32, 1e-7), Dd::new(3.0_f32, -1e-8));
        let exact = |x: Dd<f32>| x.hi as f64 + x.lo as f64;
        let near = |x: f64, y: f64| (x / y - 1.0).abs() < 2f64.powi(-44);
        assert!(near(exact(a.over(b)), exact(a) / exact(b)));
        assert!(near(exact(a.sqrt()), exact(a).sqrt()));
        assert!(near(exact(a.times(b)), exact(a) * exact(b)));
        assert!(near(exact(a.plus(b)), exact(a) + exact(b)));
    }
}
