//! The one order in which the parts of a sum are added, whoever holds them.

use crate::gradients::add_all;
use crate::{Error, Result, Tree};
use std::ops::Range;

/// The sum of the parts `first`, `first + 1`, … of a step, `2^log2` of them, where `first` is a multiple of
/// that number.
#[derive(Clone, Debug)]
pub struct Block<T> {
    /// The number of its first part.
    pub first: usize,
    /// How many parts it has, as a power of two.
    pub log2: u32,
    /// Their sum.
    pub sum: T,
}

/// Sums of parts that follow each other, in the order that does not depend on who adds them up.
///
/// Parts are the leaves of a binary tree: the numbers `0..2^k` make a block, which is the sum of its halves.
/// Of each block only the sum is kept, so at most one tree for each power of two is held at a time. What is
/// left at the end, for a number of parts that is no power of two, is added from the largest block on. A
/// process that has some of the parts has some of the blocks, and
/// [`reduce_blocks`](super::Group::reduce_blocks) adds those of all ranks as one process would have.
///
/// ```
/// use extensor::{distributed::Blocks, tensor};
/// let parts = [0.1f32, 0.2, 0.3, 0.4, 0.5];
/// let mut blocks = Blocks::new();
/// for (i, x) in parts.iter().enumerate() {
///     blocks.push(i, tensor(*x))?;
/// }
/// let [a, b, c, d, e] = parts;
/// assert_eq!(blocks.total()?.unwrap().item::<f32>()?, ((a + b) + (c + d)) + e);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks<T> {
    held: Vec<Block<T>>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks { held: Vec::new() }
    }
}

impl<T: Tree> Blocks<T> {
    /// Nothing yet.
    pub fn new() -> Blocks<T> {
        Blocks::default()
    }

    /// Adds the part of this number, which follows the last one. Buffers are not added: those of the first
    /// part of a block stay.
    pub fn push(&mut self, part: usize, tree: T) -> Result<()> {
        self.push_block(Block { first: part, log2: 0, sum: tree })
    }

    /// Adds the sum of the parts that follow.
    pub fn push_block(&mut self, block: Block<T>) -> Result<()> {
        if let Some(next) = self.held.last().map(|last| last.first + (1 << last.log2))
            && next != block.first
        {
            let (expected, got) = (next.to_string(), block.first.to_string());
            return Err(Error::Parameter { op: "blocks", parameter: "part", expected, got });
        }
        add_up(&mut self.held, block, |a, b| add_all(a, &b))
    }

    /// The blocks that are held, in the order of their parts.
    pub fn held(&self) -> &[Block<T>] {
        &self.held
    }

    /// The blocks, in the order of their parts.
    pub fn into_vec(self) -> Vec<Block<T>> {
        self.held
    }

    /// The sum of all parts; `None` of nothing.
    pub fn total(self) -> Result<Option<T>> {
        total(self.held, |a, b| add_all(a, &b))
    }
}

/// Adds a block to those held, and neighbours of one size that are halves of a block to each other.
pub(super) fn add_up<T>(
    held: &mut Vec<Block<T>>,
    mut block: Block<T>,
    mut add: impl FnMut(T, T) -> Result<T>,
) -> Result<()> {
    loop {
        let halves = |left: &Block<T>| {
            left.log2 == block.log2 && left.first.is_multiple_of(2usize << left.log2)
        };
        match held.pop_if(|left| halves(left)) {
            Some(left) => {
                let sum = add(left.sum, block.sum)?;
                block = Block { first: left.first, log2: left.log2 + 1, sum };
            }
            None => {
                held.push(block);
                return Ok(());
            }
        }
    }
}

/// The sum of blocks that are left, from the first, which is the largest.
pub(super) fn total<T>(
    held: Vec<Block<T>>,
    add: impl FnMut(T, T) -> Result<T>,
) -> Result<Option<T>> {
    let mut sums = held.into_iter().map(|block| block.sum);
    let Some(first) = sums.next() else { return Ok(None) };
    sums.try_fold(first, add).map(Some)
}

/// The first parts of the blocks that these parts make, and how many parts each has as powers of two.
pub(super) fn outline(parts: Range<usize>) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    let mut at = parts.start;
    while at < parts.end {
        let log2 = (parts.end - at).ilog2().min(at.trailing_zeros());
        found.push((at, log2));
        at += 1 << log2;
    }
    found
}

/// The parts, of `total`, that a rank of `size` has: as many as every other, or one more.
pub(crate) fn share(total: usize, rank: usize, size: usize) -> Range<usize> {
    // In 128 bits, since the product of two counts need not fit in 64.
    let cut = |rank: usize| (rank as u128 * total as u128 / size as u128) as usize;
    cut(rank)..cut(rank + 1)
}
