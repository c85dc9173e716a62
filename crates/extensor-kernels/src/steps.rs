//! A list of instructions made ready to run on blocks: which loop does each, and where its numbers lie.
//!
//! What is found out here once is not asked again for each block: of arrays of 16 elements an instruction
//! costs a few nanoseconds beside its arithmetic. This module must not know where blocks come from.

use crate::buffer::Buffer;
use crate::interpret::{Machine, Operation};
use crate::program::{Instruction, needed};
use crate::stop;
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
        let mut uses = vec![0; instructions.len()];
        let is_step = |k: usize| needed[k] && place[k] == NOWHERE && known[k].is_none();
        let steps: Vec<usize> = (0..instructions.len()).filter(|&k| is_step(k)).collect();
        for &k in &steps {
            instructions[k].operands().for_each(|operand| uses[operand] += 1);
        }
        results.iter().for_each(|&result| uses[result] += 2);
        let steps = paired::<W>(instructions, steps, &uses);
        let mut last = vec![0; instructions.len()];
        for (k, step) in &steps {
            step.operands.iter().for_each(|&operand| last[operand] = *k);
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
        for (k, step) in steps {
            // Not yet free: a loop must not write what it reads.
            let to = first
                + free.pop().unwrap_or_else(|| {
                    slots += 1;
                    slots - 1
                });
            place[k] = to;
            let mut from = [NOWHERE; 3];
            for (slot, operand) in from.iter_mut().zip(step.operands) {
                *slot = place[operand];
                if last[operand] == k && place[operand] >= first {
                    // An operand that is used twice is freed once.
                    last[operand] = 0;
                    free.push(place[operand] - first);
                }
            }
            actions.push(Action { instruction: instructions[k], run: step.run, from, to });
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

/// A loop to be run, and the instructions whose results it takes.
struct Step<W> {
    run: Operation<W>,
    operands: SmallVec<[usize; 3]>,
}

/// The loops for these instructions; one for two of them where the first is cheap and only the second
/// uses it: what it makes need not be stored and loaded.
fn paired<W: Machine>(
    instructions: &[Instruction],
    steps: Vec<usize>,
    uses: &[usize],
) -> Vec<(usize, Step<W>)> {
    let mut single = vec![false; instructions.len()];
    steps.iter().for_each(|&k| single[k] = uses[k] == 1);
    let mut gone = vec![false; instructions.len()];
    let mut all = Vec::with_capacity(steps.len());
    for k in steps {
        let instruction = &instructions[k];
        let operands: SmallVec<[usize; 3]> = instruction.operands().collect();
        let pair = operands.iter().enumerate().filter(|(_, operand)| single[**operand]).find_map(
            |(side, &inner)| Some((side, inner, W::pair(&instructions[inner], instruction, side)?)),
        );
        let step = match pair {
            Some((side, inner, run)) => {
                gone[inner] = true;
                // One of two is not made part of a third.
                single[k] = false;
                let mut both: SmallVec<[usize; 3]> = instructions[inner].operands().collect();
                both.extend(operands.iter().enumerate().filter(|(k, _)| *k != side).map(|x| *x.1));
                Step { run, operands: both }
            }
            None => Step { run: W::operation(instruction), operands },
        };
        all.push((k, step));
    }
    all.retain(|(k, _)| !gone[*k]);
    all
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
    /// The constants, then the slots, each in so much room.
    memory: Buffer,
    room: usize,
    size: usize,
}

impl<'s, W: Machine> Desk<'s, W> {
    /// Room for blocks of up to `size` elements.
    pub fn new(steps: &'s Steps<W>, size: usize) -> Self {
        // Each place begins where a vector may.
        let room = size.next_multiple_of(64 / size_of::<W>());
        let count = steps.constants.len() + steps.slots;
        let bytes = (count * room * size_of::<W>()).max(1);
        let Some(mut memory) = Buffer::scratch(bytes) else { stop::no_memory(bytes) };
        if count > 0 {
            let places = memory.as_mut_slice::<W>().chunks_mut(room);
            places.zip(&steps.constants).for_each(|(place, &value)| place.fill(value));
        }
        Desk { steps, memory, room, size }
    }

    /// Runs all steps on a block: `len` elements of every variable. Before each, something else may be
    /// done: `meanwhile(number, of)`.
    ///
    /// # Panics
    /// If there are other variables, or one has another length, or the block is too long.
    #[inline]
    pub fn run(&mut self, variables: &[&[W]], len: usize, mut meanwhile: impl FnMut(usize, usize)) {
        let count = self.steps.variables;
        assert!(len <= self.size && variables.len() == count);
        assert!(variables.iter().all(|values| values.len() == len));
        let base = self.memory.as_mut_slice::<u8>().as_mut_ptr().cast::<W>();
        let actions = &self.steps.actions;
        for (k, action) in actions.iter().enumerate() {
            meanwhile(k + 1, actions.len());
            let operand = |place: usize| match variables.get(place) {
                Some(values) => values,
                None if place == NOWHERE => &[][..],
                // SAFETY: a constant's or a slot's place: `room` elements, `len` or more, of our
                // own memory, which is initialised; `to` is another place (`Steps::new`).
                None => unsafe {
                    std::slice::from_raw_parts(base.add((place - count) * self.room), len)
                },
            };
            let operands = action.from.map(operand);
            // SAFETY: a slot, in our own memory, that none of the operands is in (`Steps::new`).
            let to = unsafe {
                std::slice::from_raw_parts_mut(base.add((action.to - count) * self.room), len)
            };
            (action.run)(&action.instruction, operands, to);
        }
    }

    /// Result number `k` of the block that was run last, on the same variables.
    pub fn result<'r>(&'r self, k: usize, variables: &[&'r [W]], len: usize) -> &'r [W] {
        let place = self.steps.results[k];
        match variables.get(place) {
            Some(values) => values,
            None => {
                let at = (place - self.steps.variables) * self.room;
                &self.memory.as_slice::<W>()[at..at + len]
            }
        }
    }
}
