//! A list of instructions made ready to run on blocks: which loop does each, and where its numbers lie.
//!
//! What is found out here once is not asked again for each block: of arrays of 16 elements an instruction
//! costs a few nanoseconds beside its arithmetic. This module must not know where blocks come from.

use crate::buffer::Buffer;
use crate::interpret::{Machine, Operation};
use crate::program::{Instruction, needed};
use crate::stop;
use crate::stream;
use smallvec::SmallVec;

/// Bytes that all places of a block may take: most of the first cache.
const NEAR: usize = 24 * 1024;
/// Elements that an instruction is done for at a time, at most and at least.
const MOST: usize = 1024;
const LEAST: usize = 128;

/// Which loop runs when, and where its result goes: a slot is used again when nothing needs what is in it.
///
/// Numbers of places count the variables first, then the constants, then the slots.
#[derive(Clone, Debug)]
pub(crate) struct Steps<W> {
    actions: Vec<Action<W>>,
    variables: usize,
    constants: Vec<W>,
    slots: usize,
    /// The places in which the results are at the end.
    results: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Action<W> {
    instruction: Instruction,
    run: Operation<W>,
    /// The places of what it is computed from; none has number `NOWHERE`.
    from: [usize; 3],
    to: usize,
}

const NOWHERE: usize = usize::MAX;

impl<W: Machine> Steps<W> {
    /// The steps to these results, of so many variables.
    pub fn new(variables: usize, instructions: &[Instruction], results: &[usize]) -> Steps<W> {
        let needed = needed(instructions, results, false);
        // What is computed of constants alone is one.
        let mut known: Vec<Option<W>> = vec![None; instructions.len()];
        let mut place = vec![NOWHERE; instructions.len()];
        let mut constants = Vec::new();
        for (k, instruction) in instructions.iter().enumerate().filter(|(k, _)| needed[*k]) {
            match *instruction {
                Instruction::Variable(number) => place[k] = number,
                _ => known[k] = constant(instruction, &known),
            }
        }
        let mut last = vec![0; instructions.len()];
        let is_step = |k: usize| needed[k] && place[k] == NOWHERE && known[k].is_none();
        let steps: Vec<usize> = (0..instructions.len()).filter(|&k| is_step(k)).collect();
        for &k in &steps {
            instructions[k].operands().for_each(|operand| last[operand] = k);
        }
        for &result in results {
            last[result] = usize::MAX;
        }
        for k in (0..instructions.len()).filter(|&k| last[k] > 0) {
            if let Some(value) = known[k] {
                place[k] = variables + constants.len();
                constants.push(value);
            }
        }
        let first = variables + constants.len();
        let (mut free, mut slots) = (Vec::new(), 0);
        let mut actions = Vec::with_capacity(steps.len());
        for k in steps {
            let instruction = instructions[k];
            // Not yet free: a loop must not write what it reads.
            let to = first
                + free.pop().unwrap_or_else(|| {
                    slots += 1;
                    slots - 1
                });
            place[k] = to;
            let mut from = [NOWHERE; 3];
            for (slot, operand) in from.iter_mut().zip(instruction.operands()) {
                *slot = place[operand];
                if last[operand] == k && place[operand] >= first {
                    // An operand that is used twice is freed once.
                    last[operand] = 0;
                    free.push(place[operand] - first);
                }
            }
            actions.push(Action { instruction, run: W::operation(&instruction), from, to });
        }
        let results = results.iter().map(|&result| place[result]).collect();
        Steps { actions, variables, constants, slots, results }
    }

    /// How many variables there are.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// How many results there are.
    pub fn results(&self) -> usize {
        self.results.len()
    }

    /// Elements that are best worked on at a time: all places together are to stay in the first cache.
    pub fn block(&self) -> usize {
        let places = self.variables + self.constants.len() + self.slots;
        (NEAR / size_of::<W>() / places.max(1) / 64 * 64).clamp(LEAST, MOST)
    }
}

/// The number that an instruction of constants gives.
fn constant<W: Machine>(instruction: &Instruction, known: &[Option<W>]) -> Option<W> {
    if let Instruction::Constant(value) = *instruction {
        return Some(W::ZERO.lit(value));
    }
    let mut values = [[W::ZERO]; 3];
    let mut count = 0;
    for operand in instruction.operands() {
        values[count] = [known[operand]?];
        count += 1;
    }
    let mut operands: [&[W]; 3] = [&[]; 3];
    for (operand, value) in operands.iter_mut().zip(&values).take(count) {
        *operand = value;
    }
    let mut out = [W::ZERO];
    W::operation(instruction)(instruction, operands, &mut out);
    Some(out[0])
}

/// Room for the numbers of a block.
pub(crate) struct Desk<'s, W> {
    steps: &'s Steps<W>,
    memory: Buffer,
    size: usize,
    /// Where each place is.
    at: SmallVec<[*const W; 32]>,
}

impl<'s, W: Machine> Desk<'s, W> {
    /// Room for blocks of up to `size` elements.
    pub fn new(steps: &'s Steps<W>, size: usize) -> Self {
        // Each place begins where a vector may.
        let room = size.next_multiple_of(64 / size_of::<W>());
        let count = steps.constants.len() + steps.slots;
        let bytes = (count * room * size_of::<W>()).max(1);
        let Some(mut memory) = Buffer::new(bytes) else { stop::no_memory(bytes) };
        let all = memory.as_mut_slice::<u8>().as_mut_ptr().cast::<W>();
        let mut at: SmallVec<[*const W; 32]> = SmallVec::new();
        at.resize(steps.variables, std::ptr::null());
        // SAFETY: `count` places of `room` elements each are the buffer.
        at.extend((0..count).map(|k| unsafe { all.add(k * room) }.cast_const()));
        for (k, &value) in steps.constants.iter().enumerate() {
            // SAFETY: as above; places begin where any number may, and the buffer is initialised.
            unsafe { std::slice::from_raw_parts_mut(all.add(k * room), size) }.fill(value);
        }
        Desk { steps, memory, size, at }
    }

    /// Runs all steps on a block: `len` elements of every variable. Meanwhile memory is asked for
    /// that lies `ahead` elements behind those of the variables that say so.
    ///
    /// # Panics
    /// If there are other variables, or one has another length, or the block is too long.
    pub fn run(&mut self, variables: &[&[W]], len: usize, ahead: &[bool]) {
        assert!(len <= self.size && variables.len() == self.steps.variables);
        for (at, values) in self.at.iter_mut().zip(variables) {
            assert!(values.len() == len);
            *at = values.as_ptr();
        }
        let actions = &self.steps.actions;
        let mut asked = Ahead { done: 0, lines: (len * size_of::<W>()).div_ceil(stream::LINE) };
        for (k, action) in actions.iter().enumerate() {
            if !ahead.is_empty() {
                asked.ask((k + 1) * asked.lines / actions.len(), variables, ahead);
            }
            let operand = |place: usize| {
                if place == NOWHERE {
                    return &[][..];
                }
                // SAFETY: the place of a variable holds `len` elements, of a constant or a slot
                // `size`, which is more; they are initialised, and `to` is none of them.
                unsafe { std::slice::from_raw_parts(self.at[place], len) }
            };
            let [a, b, c] = action.from;
            let operands = [operand(a), operand(b), operand(c)];
            // SAFETY: a slot, in our own memory, that none of the operands is in (`Steps::new`).
            let to = unsafe { std::slice::from_raw_parts_mut(self.at[action.to].cast_mut(), len) };
            (action.run)(&action.instruction, operands, to);
        }
    }

    /// Result number `k` of the block that was run last, on the same variables.
    pub fn result<'r>(&'r self, k: usize, variables: &[&'r [W]], len: usize) -> &'r [W] {
        let place = self.steps.results[k];
        if let Some(values) = variables.get(place) {
            return values;
        }
        assert!(len <= self.size && !self.memory.as_slice::<u8>().is_empty());
        // SAFETY: a constant's or a slot's place, which has `size` elements of our own memory.
        unsafe { std::slice::from_raw_parts(self.at[place], len) }
    }
}

/// How much has been asked for of what comes next.
struct Ahead {
    done: usize,
    lines: usize,
}

impl Ahead {
    /// Asks for lines up to number `until` of the block that follows, in each variable that says so.
    #[inline]
    fn ask<W>(&mut self, until: usize, variables: &[&[W]], ahead: &[bool]) {
        for (values, _) in variables.iter().zip(ahead).filter(|(_, ahead)| **ahead) {
            let next = values.as_ptr().wrapping_add(values.len()).cast::<u8>();
            for line in self.done..until {
                stream::ask::<false>(next.wrapping_add(line * stream::LINE));
            }
        }
        self.done = until;
    }
}
