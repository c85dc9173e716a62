//! Determinants, and their derivatives.

use super::factor::Factors;
use super::spectral::{Svd, svd};
use super::{Float, Matrices, Refusal, Refused, all_finite, each, matrix};
use crate::stop;

/// See [`Decompose::slogdet`](super::Decompose::slogdet).
pub(super) fn slogdet<T: Float>(n: usize, a: &[T], sign: &mut [T], log: &mut [T]) {
    let count = sign.len();
    let (sign, log) = (Matrices::new(sign, 1), Matrices::new(log, 1));
    let done = each(count, n * n * n, &|i| {
        // SAFETY: each task asks for its own.
        let (sign, log) = unsafe { (sign.get(i), log.get(i)) };
        let product = Product::of(n, &a[i * n * n..(i + 1) * n * n]);
        let (s, l) = product.map_or((f64::NAN, f64::NAN), |product| product.logarithm());
        (sign[0], log[0]) = (T::near(s), T::near(l));
        Ok(())
    });
    debug_assert_eq!(done, Ok(()));
}

/// See [`Decompose::det`](super::Decompose::det).
pub(super) fn det<T: Float>(n: usize, a: &[T], y: &mut [T]) {
    let (count, y) = (y.len(), Matrices::new(y, 1));
    let done = each(count, n * n * n, &|i| {
        // SAFETY: each task asks for its own.
        let y = unsafe { y.get(i) };
        let product = Product::of(n, &a[i * n * n..(i + 1) * n * n]);
        y[0] = product.map_or(T::NOT, |product| T::near(product.value()));
        Ok(())
    });
    debug_assert_eq!(done, Ok(()));
}

/// The matrix with each column and each row times a power of two, so that none of them is far from 1: what is would
/// be lost, or lead out of the range of the numbers. Returned is also by which power of two the determinant was
/// divided.
fn near_one<T: Float>(n: usize, a: &[T]) -> (Vec<T>, i32) {
    // Of a number below the normal ones it is one near it, which does as well.
    let exponent = |x: &T| (x.wide().abs().to_bits() >> 52) as i32 - 1023;
    let some = |x: &T| *x != T::ZERO;
    let mut columns = stop::room(i32::MIN, n);
    for row in a.chunks(n) {
        for (column, x) in columns.iter_mut().zip(row).filter(|(_, x)| some(x)) {
            *column = exponent(x).max(*column);
        }
    }
    columns.iter_mut().filter(|column| **column == i32::MIN).for_each(|column| *column = 0);
    let mut scaled = matrix(n, n);
    let mut power: i32 = columns.iter().sum();
    for (row, scaled) in a.chunks(n).zip(scaled.chunks_mut(n)) {
        let numbers = || row.iter().zip(&columns).filter(|(x, _)| some(x));
        let largest = numbers().map(|(x, column)| exponent(x) - column).max().unwrap_or(0);
        power += largest;
        for ((to, x), column) in scaled.iter_mut().zip(row).zip(&columns) {
            if some(x) {
                // Two steps, since one power may be more than there is.
                let by = -(column + largest);
                *to = T::near(x.wide() * 2f64.powi(by / 2) * 2f64.powi(by - by / 2));
            }
        }
    }
    (scaled, power)
}

/// A product that is never too large on the way: a number, and a power of two.
#[derive(Clone, Copy)]
struct Product {
    number: f64,
    power: i32,
}

impl Product {
    const ONE: Product = Product { number: 1.0, power: 0 };

    /// The determinant of a matrix; `None` if there is a number in it that is not finite.
    fn of<T: Float>(n: usize, a: &[T]) -> Option<Product> {
        if !all_finite(a) {
            return None;
        }
        if n == 0 {
            return Some(Product::ONE);
        }
        let (rows, power) = near_one(n, a);
        let factors = Factors::new(n, &rows);
        let start = if factors.exchanges % 2 == 1 { -1.0 } else { 1.0 };
        Some(factors.diagonal().fold(Product { number: start, power }, Product::times))
    }

    fn times<T: Float>(self, x: T) -> Product {
        const LARGE: f64 = 18446744073709551616.0; // 2⁶⁴
        let Product { mut number, mut power } = self;
        // At most 2¹⁰²⁴ together; what is far from 1 is brought nearer, exactly.
        let mut x = x.wide();
        if !x.is_finite() {
            return Product { number: number * x, power };
        }
        while x.abs() > LARGE {
            (x, power) = (x / LARGE, power + 64);
        }
        while x != 0.0 && x.abs() < 1.0 / LARGE {
            (x, power) = (x * LARGE, power - 64);
        }
        number *= x;
        if number.abs() > LARGE {
            (number, power) = (number / LARGE, power + 64);
        } else if number != 0.0 && number.abs() < 1.0 / LARGE {
            (number, power) = (number * LARGE, power - 64);
        }
        Product { number, power }
    }

    fn value(self) -> f64 {
        // Two steps, since one power may be more than there is.
        let half = self.power / 2;
        let power = |p: i32| 2f64.powi(p.clamp(-1022, 1023));
        self.number * power(half) * power(self.power - half)
    }

    fn logarithm(self) -> (f64, f64) {
        if self.number == 0.0 {
            return (0.0, f64::NEG_INFINITY);
        }
        let log = self.number.abs().ln() + f64::from(self.power) * std::f64::consts::LN_2;
        (self.number.signum(), log)
    }
}

/// See [`Decompose::cofactors`](super::Decompose::cofactors). With `a = u·s·vh` they are
/// `det(u)·det(vh)·u·c·vh`, where `c` has the products of all singular values but one: nothing is divided.
pub(super) fn cofactors<T: Float>(n: usize, a: &[T], y: &mut [T]) -> Result<(), Refused> {
    if n == 0 {
        return Ok(());
    }
    let (size, count) = (n * n, a.len() / (n * n));
    let y = Matrices::new(y, size);
    each(count, 12 * size * n, &|i| {
        // SAFETY: each task asks for its own.
        let y = unsafe { y.get(i) };
        let (mut u, mut s, mut vh) = (matrix(n, n), matrix::<T>(n, 1), matrix(n, n));
        let out = Svd { u: &mut u, s: &mut s, vh: &mut vh };
        svd([n, n], false, &a[i * size..(i + 1) * size], out).map_err(|_| Refusal)?;
        let signs = [&u, &vh].map(|x| Product::of(n, x));
        let [Some(left), Some(right)] = signs else {
            y.fill(T::NOT);
            return Ok(());
        };
        let sign = left.number.signum() * right.number.signum();
        let but = |k: usize| {
            let others = s.iter().enumerate().filter(|(j, _)| *j != k).map(|(_, s)| *s);
            others.fold(Product { number: sign, power: 0 }, Product::times).value()
        };
        for k in 0..n {
            let c = T::near(but(k));
            vh[k * n..(k + 1) * n].iter_mut().for_each(|v| *v *= c);
        }
        for row in 0..n {
            let out = &mut y[row * n..(row + 1) * n];
            out.fill(T::ZERO);
            for k in 0..n {
                let c = u[row * n + k];
                for (out, v) in out.iter_mut().zip(&vh[k * n..(k + 1) * n]) {
                    *out += c * *v;
                }
            }
        }
        Ok(())
    })
}
