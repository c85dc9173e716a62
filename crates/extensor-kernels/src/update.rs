//! One step of an optimiser: new values of a parameter and of what is remembered about it, from its
//! gradient, in one pass over memory.
//!
//! A [`Rule`] is compiled only for slices (and for each instruction set); [`update`] does the rest:
//! it walks over the arrays in blocks that fit the first cache, widens reduced precisions there, and
//! shares large work among threads. It must not know where a gradient comes from.

mod rules;

pub use rules::*;

use crate::array::each;
use crate::isa::{Kernel, dispatch};
use crate::native::{Compute, Native};
use crate::number::Real;
use crate::par::{Shared, parallel_for, share};
use crate::view::{Gather, View};
use std::sync::Arc;

/// What becomes of one element of a parameter and of its `S` slots.
pub trait Rule<const S: usize>: Clone + Send + Sync + 'static {
    /// The new parameter and slots, from the old ones and the gradient.
    fn step<R: Real>(&self, parameter: R, gradient: R, slots: [R; S]) -> (R, [R; S]);
}

/// Something that can be done to slices of equal length.
pub trait Update<W, const S: usize>: Send + Sync {
    /// Changes the parameters and slots, given gradients that are multiplied by `scale` first.
    fn run(&self, parameter: &mut [W], gradient: &[W], scale: f64, slots: [&mut [W]; S]);
}

/// An update for every type that is computed in.
pub trait RealUpdate<const S: usize>: Update<f32, S> + Update<f64, S> {
    /// The same update, to be kept.
    fn keep(&self) -> Arc<dyn RealUpdate<S>>;
}

impl<F: Rule<S>, const S: usize> RealUpdate<S> for Rules<F> {
    fn keep(&self) -> Arc<dyn RealUpdate<S>> {
        Arc::new(self.clone())
    }
}

/// A [`Rule`] as an [`Update`].
#[derive(Clone)]
pub struct Rules<F>(pub F);

struct Loop<'a, W, F, const S: usize> {
    parameter: &'a mut [W],
    gradient: &'a [W],
    scale: f64,
    slots: [&'a mut [W]; S],
    rule: &'a F,
}

/// Elements that the gradient is scaled for at a time.
const SCALED: usize = 256;

impl<W: Real + Native, F: Rule<S>, const S: usize> Kernel for Loop<'_, W, F, S> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Loop { parameter, gradient, scale, slots, rule } = self;
        let len = parameter.len();
        assert!(gradient.len() == len);
        let mut k = 0;
        while k < S {
            assert!(slots[k].len() == len);
            k += 1;
        }
        let scale = W::ZERO.lit(scale);
        // Gradients in an array of our own: one fewer that the compiler has to prove apart from the
        // others before it vectorises.
        let mut scaled = [W::ZERO; SCALED];
        let mut start = 0;
        while start < len {
            let count = if len - start < SCALED { len - start } else { SCALED };
            let mut i = 0;
            while i < count {
                // SAFETY: `start + count` is at most the length of all, and `count` at most `SCALED`.
                unsafe {
                    *scaled.get_unchecked_mut(i) = *gradient.get_unchecked(start + i) * scale;
                }
                i += 1;
            }
            let mut i = 0;
            while i < count {
                let at = start + i;
                // SAFETY: `at` is below the length of all, which were compared; `i` below `SCALED`.
                unsafe {
                    let mut values = [W::ZERO; S];
                    let mut k = 0;
                    while k < S {
                        values[k] = *slots[k].get_unchecked(at);
                        k += 1;
                    }
                    let (p, values) =
                        rule.step(*parameter.get_unchecked(at), *scaled.get_unchecked(i), values);
                    *parameter.get_unchecked_mut(at) = p;
                    let mut k = 0;
                    while k < S {
                        *slots[k].get_unchecked_mut(at) = values[k];
                        k += 1;
                    }
                }
                i += 1;
            }
            start += count;
        }
    }
}

impl<W: Real + Native, F: Rule<S>, const S: usize> Update<W, S> for Rules<F> {
    fn run(&self, parameter: &mut [W], gradient: &[W], scale: f64, slots: [&mut [W]; S]) {
        dispatch(Loop { parameter, gradient, scale, slots, rule: &self.0 });
    }
}

/// Elements to be replaced: those of `to` itself, or those of `from`, by new ones in `to`.
pub struct Target<'a, T> {
    /// Where the old elements are, if elsewhere.
    pub from: Option<&'a [T]>,
    /// Where the new ones go.
    pub to: &'a mut [T],
}

/// A [`Target`] that tasks share, each its own part.
struct Parts<'a, T> {
    from: Option<&'a [T]>,
    to: Shared<T>,
}

impl<'a, T: Copy> Parts<'a, T> {
    fn new(target: Target<'a, T>, len: usize) -> Self {
        let lengths = [target.to.len(), target.from.map_or(len, <[T]>::len)];
        assert!(lengths == [len; 2], "update: a length differs from the gradient's");
        Parts { from: target.from, to: Shared::new(target.to) }
    }

    /// The elements `start..end`, brought to where the new ones go.
    ///
    /// # Safety
    /// `start..end` must lie in the place, and no two live parts may overlap.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, start: usize, end: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        let to = unsafe { self.to.part(start, end) };
        if let Some(from) = self.from {
            to.copy_from_slice(&from[start..end]);
        }
        to
    }
}

/// Elements that one thread takes at a time.
const CHUNK: usize = 16 * 1024;
/// At the least.
const LEAST: usize = 4 * 1024;
/// Elements that are packed or widened at a time.
const BLOCK: usize = 1024;

/// Replaces a parameter and its slots by what `step` makes of them and of the gradient times `scale`.
///
/// # Panics
/// If the lengths differ.
pub fn update<T, G, const S: usize>(
    step: &dyn Update<T::Wide, S>,
    parameter: Target<'_, T>,
    gradient: View<'_, G>,
    scale: f64,
    slots: [Target<'_, T::Wide>; S],
) where
    T: Compute,
    G: Compute<Wide = T::Wide>,
{
    let len = gradient.len();
    if len == 0 && parameter.to.is_empty() {
        return;
    }
    let parameter = Parts::new(parameter, len);
    let slots = each(slots, |slot| Parts::new(slot, len));
    let gradient = Gather::new(&gradient);
    let arrays = Arrays { parameter, gradient, slots, scale };
    let chunk = share(len, LEAST, CHUNK).next_multiple_of(BLOCK);
    parallel_for(len.div_ceil(chunk), &|task| {
        let (start, end) = (task * chunk, (task * chunk + chunk).min(len));
        // SAFETY: the chunks of different tasks do not overlap, and lie below the length of all.
        unsafe { arrays.update(step, start, end) };
    });
}

struct Arrays<'a, T: Compute, G, const S: usize> {
    parameter: Parts<'a, T>,
    gradient: Gather<'a, G>,
    slots: [Parts<'a, T::Wide>; S],
    scale: f64,
}

impl<T: Compute, G: Compute<Wide = T::Wide>, const S: usize> Arrays<'_, T, G, S> {
    /// Updates the elements `start..end`, in blocks that stay in the first cache between being
    /// brought to their place and being changed.
    ///
    /// # Safety
    /// As for [`Parts::part`].
    unsafe fn update(&self, step: &dyn Update<T::Wide, S>, start: usize, end: usize) {
        for start in (start..end).step_by(BLOCK) {
            let end = (start + BLOCK).min(end);
            // SAFETY: the caller's promise; one block follows another.
            let (parameter, slots) = unsafe {
                let slots = each(self.slots.each_ref(), |slot| slot.part(start, end));
                (self.parameter.part(start, end), slots)
            };
            match self.gradient.slice(start, end - start).and_then(G::as_wide) {
                Some(gradient) => self.run(step, parameter, gradient, slots),
                None => self.run_packed(step, parameter, start, slots),
            }
        }
    }

    /// Updates a block whose gradient lies in memory as it is computed with.
    fn run(
        &self,
        step: &dyn Update<T::Wide, S>,
        parameter: &mut [T],
        gradient: &[T::Wide],
        slots: [&mut [T::Wide]; S],
    ) {
        if T::as_wide(parameter).is_none() {
            return self.run_widened(step, parameter, gradient, slots);
        }
        if let Some(parameter) = T::as_wide_mut(parameter) {
            step.run(parameter, gradient, self.scale, slots);
        }
    }

    /// Updates a block of parameters that are computed with in another type.
    #[inline(never)]
    fn run_widened(
        &self,
        step: &dyn Update<T::Wide, S>,
        parameter: &mut [T],
        gradient: &[T::Wide],
        slots: [&mut [T::Wide]; S],
    ) {
        let mut values = [T::Wide::ZERO; BLOCK];
        let values = &mut values[..parameter.len()];
        T::widen(parameter, values);
        step.run(values, gradient, self.scale, slots);
        T::narrow(values, parameter);
    }

    /// Updates a block from element `start` on whose gradient has to be gathered or widened.
    #[inline(never)]
    fn run_packed(
        &self,
        step: &dyn Update<T::Wide, S>,
        parameter: &mut [T],
        start: usize,
        slots: [&mut [T::Wide]; S],
    ) {
        let mut raw = [G::ZERO; BLOCK];
        let mut wide = [T::Wide::ZERO; BLOCK];
        let (raw, wide) = (&mut raw[..parameter.len()], &mut wide[..parameter.len()]);
        self.gradient.read(start, raw);
        G::widen(raw, wide);
        self.run(step, parameter, wide, slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::with_threads;
    use half::bf16;

    fn numbers(seed: u32, len: usize) -> Vec<f32> {
        let word = |i| crate::random::philox(u64::from(seed), i as u128)[0];
        (0..len).map(|i| word(i) as f32 / 4e9 - 0.5).collect()
    }

    const ADAM: AmsGrad = AmsGrad(Adam {
        step_size: 1e-2,
        keep: 1.0 - 1e-4,
        decay: 0.0,
        blend: 0.1,
        beta2: 0.99,
        blend_square: 0.01,
        correction: 1.5,
        eps: 1e-8,
    });

    /// The new parameter and slots after two steps.
    fn two_steps(len: usize, threads: usize, in_place: bool) -> [Vec<f32>; 4] {
        let mut now = [numbers(1, len), vec![0.0; len], vec![0.0; len], vec![0.0; len]];
        for round in 0..2 {
            let gradient = numbers(7 + round, len);
            let old = now.clone();
            if !in_place {
                now = std::array::from_fn(|_| vec![f32::NAN; len]);
            }
            let [a, b, c, d] = now.each_mut().map(Vec::as_mut_slice);
            let target = |k: usize, to| Target { from: (!in_place).then_some(&old[k][..]), to };
            let targets = (target(0, a), [target(1, b), target(2, c), target(3, d)]);
            let shape = [len];
            let gradient = View::new(&gradient, 0, &shape, &[1]);
            with_threads(threads, || update(&Rules(ADAM), targets.0, gradient, 0.5, targets.1));
        }
        now
    }

    #[test]
    fn in_place_or_not_and_for_any_number_of_threads_the_bits_are_the_same() {
        for len in [0, 1, 255, 257, 1025, CHUNK + 1, 3 * CHUNK + 17] {
            let expected = two_steps(len, 1, true);
            assert!(expected[0].iter().all(|x| x.is_finite()));
            for threads in [1, 2, 4] {
                for in_place in [false, true] {
                    assert_eq!(two_steps(len, threads, in_place), expected, "{len} {threads}");
                }
            }
        }
    }

    #[test]
    fn an_element_is_what_the_rule_says_of_it() {
        let len = 1500;
        let (p, g, m) = (numbers(1, len), numbers(2, len), numbers(3, len));
        let rule = Momentum { rate: 0.1, decay: 0.01, momentum: 0.9, weight: 0.5, nesterov: true };
        let (mut new_p, mut new_m) = (p.clone(), m.clone());
        let shape = [len];
        update(
            &Rules(rule),
            Target { from: None, to: &mut new_p },
            View::new(&g, 0, &shape, &[1]),
            2.0,
            [Target { from: None, to: &mut new_m }],
        );
        for i in 0..len {
            let g = f64::from(g[i]) * 2.0 + 0.01 * f64::from(p[i]);
            let m = 0.9 * f64::from(m[i]) + 0.5 * g;
            let p = f64::from(p[i]) - 0.1 * (g + 0.9 * m);
            assert!((m - f64::from(new_m[i])).abs() < 1e-6, "{i}");
            assert!((p - f64::from(new_p[i])).abs() < 1e-6, "{i}");
        }
    }

    #[test]
    fn reduced_precisions_are_rounded_once_from_f32() {
        let len = 1100;
        let round = |x: Vec<f32>| x.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
        let (p, g) = (round(numbers(1, len)), round(numbers(2, len)));
        let mut new = p.clone();
        let shape = [len];
        let rule = Descent { rate: 0.3, decay: 0.1 };
        update(
            &Rules(rule),
            Target { from: None, to: &mut new },
            View::new(&g, 0, &shape, &[1]),
            1.0,
            [],
        );
        for i in 0..len {
            let g = p[i].to_f32().mul_add(0.1, g[i].to_f32());
            assert_eq!(new[i], bf16::from_f32(g.mul_add(-0.3, p[i].to_f32())), "{i}");
        }
    }
}
