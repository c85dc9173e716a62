//! Working memory that a thread keeps from one product to the next.

use super::Real;
use std::cell::Cell;

/// A cache line: what packed panels are aligned to, so that no vector load crosses two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    static KEPT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Runs `f` with `len` numbers of unspecified value, aligned to a cache line.
///
/// The memory is this thread's, grown when needed and kept for the next call. While `f` runs it is
/// taken: a call within the call gets memory of its own.
pub(super) fn with<R: Real, Out>(len: usize, f: impl FnOnce(&mut [R]) -> Out) -> Out {
    let lines = (len * size_of::<R>()).div_ceil(size_of::<Line>());
    let mut kept = KEPT.take();
    if kept.len() < lines {
        // What is in it need not be moved to the new place.
        kept = Vec::new();
        kept.resize(lines, Line([0; 64]));
    }
    // SAFETY: the lines are initialised bytes, `len` numbers fit in them, the alignment of a line
    // is a multiple of a number's, and every pattern of bits is a number.
    let numbers = unsafe { std::slice::from_raw_parts_mut(kept.as_mut_ptr().cast::<R>(), len) };
    let out = f(numbers);
    KEPT.set(kept);
    out
}
