//! Sums with all lanes in registers.
//!
//! The compiler loads and stores lanes that are an array for every group of numbers, or turns them
//! into single numbers; either costs more than to add. This module must not know how a sum is cut: it
//! adds groups to lanes, in the order of the groups, as the plain loop does.

use super::LANES;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Isa, isa};
use std::num::Wrapping;

/// Numbers that are summed in lanes of type `A`.
pub(super) trait Registers<A>: Sized {
    /// Adds groups of [`LANES`] numbers to as many lanes, if there is a loop for that here.
    #[inline(always)]
    fn add_groups(_x: &[Self], _lanes: &mut [A]) -> bool {
        false
    }
}

impl Registers<Wrapping<u8>> for Wrapping<u8> {}
impl Registers<Wrapping<u16>> for Wrapping<u16> {}
impl Registers<Wrapping<u32>> for Wrapping<u32> {}
impl Registers<Wrapping<u64>> for Wrapping<u64> {}

macro_rules! registers {
    ($($t:ty: $add:ident, $load:expr;)*) => {$(
        impl Registers<f64> for $t {
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn add_groups(x: &[$t], lanes: &mut [f64]) -> bool {
                let Ok(lanes) = lanes.try_into() else { return false };
                if isa() != Isa::V4 {
                    return false;
                }
                // SAFETY: the instructions of V4 were detected.
                unsafe { $add(x, lanes) };
                true
            }
        }

        /// # Safety
        /// The processor must have AVX-512 F.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        #[inline]
        unsafe fn $add(x: &[$t], lanes: &mut [f64; LANES]) {
            use std::arch::x86_64::*;
            const WIDTH: usize = 8;
            let (groups, []) = x.as_chunks::<LANES>() else { unreachable!("whole groups") };
            let [mut a, mut b, mut c, mut d] =
                // SAFETY: four vectors of eight are the lanes.
                std::array::from_fn(|k| unsafe { _mm512_loadu_pd(lanes.as_ptr().add(k * WIDTH)) });
            for group in groups {
                let at = |k: usize| {
                    // SAFETY: four vectors of eight are the group.
                    unsafe { $load(group.as_ptr().add(k * WIDTH)) }
                };
                a = _mm512_add_pd(a, at(0));
                b = _mm512_add_pd(b, at(1));
                c = _mm512_add_pd(c, at(2));
                d = _mm512_add_pd(d, at(3));
            }
            for (k, sums) in [a, b, c, d].into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm512_storeu_pd(lanes.as_mut_ptr().add(k * WIDTH), sums) };
            }
        }
    )*};
}

registers! {
    f32: add_f32, |address: *const f32| _mm512_cvtps_pd(_mm256_loadu_ps(address));
    f64: add_f64, |address: *const f64| _mm512_loadu_pd(address);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Isa, isa};

    #[test]
    fn lanes_in_registers_have_the_bits_of_lanes_in_memory() {
        for groups in [0, 1, 2, 7, 64] {
            let x: Vec<f32> = (0..groups * LANES).map(|i| (i as f32).sin() * 1e5).collect();
            let start: Vec<f64> = (0..LANES).map(|l| (l as f64).cos() * 1e-9).collect();
            let mut plain = start.clone();
            for (i, &x) in x.iter().enumerate() {
                plain[i % LANES] += f64::from(x);
            }
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let (mut narrow, mut same) = (start.clone(), start);
            let done = [f32::add_groups(&x, &mut narrow), f64::add_groups(&wide, &mut same)];
            for (done, lanes) in done.into_iter().zip([narrow, same]) {
                assert_eq!(done, cfg!(target_arch = "x86_64") && isa() == Isa::V4);
                assert!(!done || lanes == plain, "{groups} groups: {lanes:?} and {plain:?}");
            }
        }
    }
}
