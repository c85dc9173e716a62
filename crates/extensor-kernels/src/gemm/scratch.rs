//! Working memory that a thread keeps from one product to the next.

use super::Element;
use crate::stop;
use std::cell::Cell;

/// A cache line: what packed panels are aligned to, so that no vector load crosses two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    /// Memory not in use, what was given back last on top.
    static KEPT: Cell<Vec<Vec<Line>>> = const { Cell::new(Vec::new()) };
}

/// Runs `f` with `len` numbers of unspecified value, aligned to a cache line.
///
/// The memory is this thread's, grown when needed and kept for the next call. A call within the
/// call has memory of its own, and as calls nest in the same way each time, gets the same again.
///
/// Always inlined: what `f` does with vectors would else be outside the copy that enables them, and
/// each intrinsic a function call.
#[inline(always)]
pub(crate) fn with<R: Element, Out>(len: usize, f: impl FnOnce(&mut [R]) -> Out) -> Out {
    let mut room = take(len.saturating_mul(size_of::<R>()).div_ceil(size_of::<Line>()));
    // SAFETY: the lines are initialised bytes, `len` numbers fit in them, the alignment of a line
    // is a multiple of a number's, and every pattern of bits is a number.
    let numbers = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<R>(), len) };
    let out = f(numbers);
    give_back(room);
    out
}

/// At least so many lines.
fn take(lines: usize) -> Vec<Line> {
    let mut kept = KEPT.take();
    let mut room = kept.pop().unwrap_or_default();
    KEPT.set(kept);
    if room.len() < lines {
        // What is in it need not be moved to the new place.
        drop(room);
        room = stop::room(Line([0; 64]), lines);
    }
    room
}

fn give_back(room: Vec<Line>) {
    let mut kept = KEPT.take();
    kept.push(room);
    KEPT.set(kept);
}
