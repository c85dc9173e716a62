//! Sums that travel while what is to be added next is still being computed.

use super::blocks::Block;
use super::group::Group;
use crate::{Error, Result, Tensor};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The bytes that are sent together: leaves are handed over one by one, and small ones wait for others. A model of
/// a few million bytes must make several, or nothing travels before its backward pass has ended.
const BUCKET: usize = 1 << 20;

/// A leaf by its number, in the blocks of this rank's parts.
type Leaf = (usize, Vec<Block<Tensor>>);

/// Sums by the leaves' numbers.
type Sums = Vec<(usize, Tensor)>;

/// [`reduce_blocks`](Group::reduce_blocks) leaf by leaf: each is handed over when it is there, and travels,
/// on a thread of its own, while the next is computed. The bits are the same.
///
/// ```
/// use extensor::distributed::{Blocks, threads};
/// use extensor::tensor;
/// let sums = threads(2, |group| {
///     let mut reducer = group.reducer(2)?;
///     for leaf in [1, 0] {
///         let mut blocks = Blocks::new();
///         group.parts(2).try_for_each(|part| blocks.push(part, tensor([part as f64 + 0.5])))?;
///         reducer.push(leaf, blocks.into_vec())?;
///     }
///     reducer.finish()
/// })?;
/// for sum in sums {
///     let numbers: Vec<usize> = sum.iter().map(|(leaf, _)| *leaf).collect();
///     assert_eq!(numbers, [0, 1]);
///     assert_eq!(sum[0].1.to_vec::<f64>()?, [2.0]);
/// }
/// # Ok::<(), extensor::Error>(())
/// ```
///
/// Every rank hands over the same leaves in the same order. Until it is finished the group makes no other
/// calls; if it is dropped before that, none at all.
pub struct Reducer {
    group: Group,
    parts: usize,
    /// Leaves that wait for others, and their bytes.
    waiting: Vec<Leaf>,
    bytes: usize,
    work: Work,
    finished: bool,
}

/// Who adds the buckets.
enum Work {
    /// A thread, until it has been waited for.
    Thread(Sender<Vec<Leaf>>, JoinHandle<Result<Sums>>),
    /// This thread, where no other may call the transport.
    Here(Sums),
}

impl Group {
    /// A reducer for a step of so many parts.
    pub fn reducer(&self, parts: usize) -> Result<Reducer> {
        if parts < self.size() {
            let expected = format!("at least as many as ranks, {}", self.size());
            let (op, parameter, got) = ("reducer", "parts", parts.to_string());
            return Err(Error::Parameter { op, parameter, expected, got });
        }
        self.claim_for_reducer()?;
        let mut work = Work::Here(Vec::new());
        if self.size() > 1 && self.transport().any_thread() {
            let (sender, buckets) = channel();
            let group = self.clone();
            let named = std::thread::Builder::new().name("extensor-reducer".into());
            if let Ok(thread) = named.spawn(move || all(&group, parts, &buckets)) {
                work = Work::Thread(sender, thread);
            }
        }
        let group = self.clone();
        Ok(Reducer { group, parts, waiting: Vec::new(), bytes: 0, work, finished: false })
    }
}

/// The sums of all buckets, in the order in which they come.
fn all(group: &Group, parts: usize, buckets: &Receiver<Vec<Leaf>>) -> Result<Sums> {
    let mut found = Vec::new();
    for bucket in buckets {
        found.extend(one(group, parts, bucket)?);
    }
    Ok(found)
}

/// The sums of a bucket.
fn one(group: &Group, parts: usize, bucket: Vec<Leaf>) -> Result<Sums> {
    let numbers: Vec<usize> = bucket.iter().map(|(leaf, _)| *leaf).collect();
    let mut blocks: Vec<Block<Vec<Tensor>>> = Vec::new();
    for (_, leaf) in bucket {
        for (k, Block { first, log2, sum }) in leaf.into_iter().enumerate() {
            match blocks.get_mut(k) {
                Some(block) if (block.first, block.log2) == (first, log2) => block.sum.push(sum),
                Some(_) => {
                    let (expected, got) = ("the same of every leaf".into(), "others".into());
                    return Err(Error::Parameter {
                        op: "reducer",
                        parameter: "blocks",
                        expected,
                        got,
                    });
                }
                None => blocks.push(Block { first, log2, sum: vec![sum] }),
            }
        }
    }
    let sums = group.reduce_claimed("reducer", &format!("{numbers:?}"), blocks, parts)?;
    Ok(numbers.into_iter().zip(sums).collect())
}

impl Reducer {
    /// Hands over the blocks of a leaf. An error of what was handed over before may show here, or when the
    /// reducer is [finished](Reducer::finish).
    pub fn push(&mut self, leaf: usize, blocks: Vec<Block<Tensor>>) -> Result<()> {
        let bytes = blocks.first().map_or(0, |block| block.sum.len() * block.sum.dtype().size());
        self.waiting.push((leaf, blocks));
        self.bytes += bytes;
        if self.bytes >= BUCKET { self.send() } else { Ok(()) }
    }

    /// Sends the leaves that wait.
    fn send(&mut self) -> Result<()> {
        let bucket = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        if bucket.is_empty() {
            return Ok(());
        }
        match &mut self.work {
            // Whose thread has ended has an error, which is found at the end.
            Work::Thread(sender, _) => drop(sender.send(bucket)),
            Work::Here(found) => found.extend(one(&self.group, self.parts, bucket)?),
        }
        Ok(())
    }

    /// The sums of all leaves, by their numbers, in the order of those.
    pub fn finish(mut self) -> Result<Vec<(usize, Tensor)>> {
        self.send()?;
        let mut found = match std::mem::replace(&mut self.work, Work::Here(Vec::new())) {
            Work::Here(found) => found,
            Work::Thread(sender, thread) => {
                drop(sender);
                match thread.join() {
                    Ok(found) => found?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        };
        self.finished = true;
        found.sort_by_key(|(leaf, _)| *leaf);
        Ok(found)
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        // Nobody waits for a thread that may wait for other ranks: it finds out that the group is broken.
        self.group.give_back(self.finished || self.group.size() == 1);
    }
}
