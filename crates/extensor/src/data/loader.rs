//! The loader: shuffles a data set, cuts it into batches and makes them ahead of time.
//!
//! What it gives depends on the data set, the key and the position alone, not on threads or on where
//! it started. It must not know what is in a batch.

use super::ahead::Ahead;
use super::shares::{Cut, ShareMaker, Shares};
use super::{Batch, Dataset, Shuffle};
use crate::tensor::with_room;
use crate::{Error, Key, Result};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const OP: &str = "Loader";
/// Up to so many examples their order is a list; beyond that it would take 256 MiB and more.
const LISTED: usize = 1 << 24;

/// Where a loader is: the batch that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// How often the whole data set was gone through.
    pub epoch: u64,
    /// How many batches of the epoch there were.
    pub batch: u64,
}

/// A batch with its position and that of the batch after it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The batch.
    pub batch: Batch,
    /// Where it is.
    pub position: Position,
    /// Where to go on after it: what a checkpoint keeps.
    pub next: Position,
}

/// Cuts a data set into batches, in the same order for the same key.
///
/// ```
/// use extensor::{Key, data::{Loader, Pairs, Position}, tensor};
///
/// let data = Pairs::new(tensor([0.0, 1.0, 2.0, 3.0, 4.0]), tensor([0, 1, 2, 3, 4]))?;
/// let loader = Loader::new(data, 2, Key::new(7))?.shuffle(true);
/// assert_eq!(loader.batches_per_epoch(), 3); // of 2, 2 and 1
/// for loaded in loader.epoch(0)? {
///     let loaded = loaded?;
///     println!("{:?}: {}", loaded.position, loaded.batch.inputs);
/// }
/// // The batches from any position on, epoch after epoch, without end:
/// let mut batches = loader.start_at(Position { epoch: 3, batch: 2 })?;
/// let last_of_epoch_3 = batches.next().unwrap()?;
/// assert_eq!(last_of_epoch_3.next, Position { epoch: 4, batch: 0 });
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Loader {
    dataset: Arc<dyn Dataset>,
    key: Key,
    batch_size: usize,
    shuffle: bool,
    drop_last: bool,
    prefetch: usize,
}

impl Loader {
    /// Batches of `batch_size` examples in the data set's order, a smaller one at the end of an epoch
    /// if need be, made up to two ahead by a thread.
    pub fn new(dataset: impl Dataset + 'static, batch_size: usize, key: Key) -> Result<Loader> {
        if batch_size == 0 {
            return Err(bad("batch_size", "1 or more", batch_size));
        }
        if dataset.is_empty() {
            return Err(bad("dataset", "one example or more", "empty"));
        }
        let dataset = Arc::new(dataset);
        Ok(Loader { dataset, key, batch_size, shuffle: false, drop_last: false, prefetch: 2 })
    }

    /// With the examples of each epoch in an order of its own, which depends on the key and the epoch.
    ///
    /// Of more than 2²⁴ examples there is no list of that order in memory: it is a [`Shuffle`].
    pub fn shuffle(self, shuffle: bool) -> Loader {
        Loader { shuffle, ..self }
    }

    /// Without the last examples of an epoch if they do not fill a batch.
    pub fn drop_last(self, drop_last: bool) -> Loader {
        Loader { drop_last, ..self }
    }

    /// With so many batches made ahead by a thread; 0: each is made when it is asked for.
    pub fn prefetch(self, batches: usize) -> Loader {
        Loader { prefetch: batches, ..self }
    }

    /// The data set.
    pub fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.dataset
    }

    /// The examples of a full batch.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// How many batches there are in an epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        let (len, size) = (self.dataset.len(), self.batch_size);
        (if self.drop_last { len / size } else { len.div_ceil(size) }) as u64
    }

    /// The order in which an epoch goes through the examples.
    pub fn order(&self, epoch: u64) -> Result<Vec<usize>> {
        let len = self.dataset.len();
        match self.order_of(epoch)? {
            Order::Same => numbers(len),
            Order::Listed(order) => Ok(order),
            Order::Computed(order) => {
                let mut all = with_room(OP, len)?;
                all.extend(order.iter());
                Ok(all)
            }
        }
    }

    fn order_of(&self, epoch: u64) -> Result<Order> {
        let (len, key) = (self.dataset.len(), self.keys()[0].fold_in(epoch));
        Ok(match self.shuffle {
            false => Order::Same,
            true if len > LISTED => Order::Computed(Shuffle::new(key, len)),
            true => Order::Listed(permutation(key, len)?),
        })
    }

    /// For the order, and for what is random about the examples.
    fn keys(&self) -> [Key; 2] {
        self.key.split()
    }

    /// The batches of one epoch.
    pub fn epoch(&self, epoch: u64) -> Result<Batches> {
        self.batches(Position { epoch, batch: 0 }, Some(epoch))
    }

    /// The rest of one epoch, from a position in it.
    pub fn rest_of_epoch(&self, position: Position) -> Result<Batches> {
        self.batches(position, Some(position.epoch))
    }

    /// The batches from a position on, epoch after epoch, without end: the same bits as if the loader
    /// had come there by itself.
    pub fn start_at(&self, position: Position) -> Result<Batches> {
        self.batches(position, None)
    }

    /// What one of several ranks computes of the batches from a position on, epoch after epoch, without
    /// end: the first batch is the first of a step. Only the rank's own examples are read.
    ///
    /// ```
    /// use extensor::{Key, data::{Cut, Loader, Pairs}, tensor};
    /// let data = Pairs::new(tensor([0.0, 1.0, 2.0, 3.0, 4.0]), tensor([0, 1, 2, 3, 4]))?;
    /// let loader = Loader::new(data, 5, Key::new(7))?;
    /// // A batch in three parts, for the second of two ranks.
    /// let cut = Cut { parts: 3, rank: 1, size: 2, ..Cut::WHOLE };
    /// let share = loader.shares_from(Default::default(), cut)?.next().unwrap()?;
    /// let parts: Vec<(usize, Vec<f64>)> =
    ///     share.parts.iter().map(|(part, batch)| (*part, batch.inputs.to_f64_vec())).collect();
    /// assert_eq!(parts, [(1, vec![1.0, 2.0]), (2, vec![3.0, 4.0])]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn shares_from(&self, position: Position, cut: Cut) -> Result<Shares> {
        cut.expect_sense()?;
        let maker = ShareMaker::new(self.maker(position, None)?, cut);
        Ok(Shares::new(Ahead::new(maker, self.prefetch)?))
    }

    fn batches(&self, position: Position, last_epoch: Option<u64>) -> Result<Batches> {
        Ok(Batches(Ahead::new(self.maker(position, last_epoch)?, self.prefetch)?))
    }

    fn maker(&self, position: Position, last_epoch: Option<u64>) -> Result<Maker> {
        let count = self.batches_per_epoch();
        if count == 0 {
            let size = self.batch_size;
            let expected =
                format!("at most {}, the data set's size, without its rest", self.dataset.len());
            return Err(bad("batch_size", &expected, size));
        }
        if position.batch > count {
            return Err(bad("position", &format!("a batch up to {count}"), position.batch));
        }
        Ok(Maker { loader: self.clone(), position, last_epoch, order: None })
    }

    /// What its batches depend on beside the examples, in words: for ranks to compare.
    pub(crate) fn described(&self) -> String {
        let Loader { dataset, key, batch_size, shuffle, drop_last, prefetch: _ } = self;
        format!(
            "{} examples in batches of {batch_size} (shuffled: {shuffle}, without the rest: {drop_last}), key {}",
            dataset.len(),
            key.seed()
        )
    }

    /// How many examples the batch at a position has.
    pub(super) fn examples_at(&self, position: Position) -> usize {
        let start = position.batch as usize * self.batch_size;
        self.batch_size.min(self.dataset.len().saturating_sub(start))
    }

    /// The position itself, or after the last batch of an epoch the next epoch.
    pub(super) fn settle(&self, position: Position) -> Position {
        if position.batch < self.batches_per_epoch() {
            return position;
        }
        Position { epoch: position.epoch.wrapping_add(1), batch: 0 }
    }
}

pub(super) fn bad(parameter: &'static str, expected: &str, got: impl ToString) -> Error {
    Error::Parameter { op: OP, parameter, expected: expected.into(), got: got.to_string() }
}

/// `0..count`, or an error where there is no memory for it.
fn numbers(count: usize) -> Result<Vec<usize>> {
    let mut all = with_room(OP, count)?;
    all.extend(0..count);
    Ok(all)
}

/// A random order of `0..count`, each equally likely (Fisher and Yates).
fn permutation(key: Key, count: usize) -> Result<Vec<usize>> {
    let mut order = numbers(count)?;
    let words = key.integers([count], i64::MAX as u64)?;
    let words = words.as_slice::<i64>()?;
    for (last, &word) in words.iter().enumerate().rev() {
        let chosen = (word as u128 * (last as u128 + 1)) >> 63;
        order.swap(last, chosen as usize);
    }
    Ok(order)
}

/// In which order an epoch goes through the examples.
enum Order {
    /// That of their numbers.
    Same,
    Listed(Vec<usize>),
    Computed(Shuffle),
}

impl Order {
    /// The examples at these places.
    fn at(&self, places: Range<usize>) -> Vec<usize> {
        match self {
            Order::Same => places.collect(),
            Order::Listed(order) => order[places].to_vec(),
            Order::Computed(order) => places.map(|place| order.at(place)).collect(),
        }
    }
}

/// Makes batch after batch.
pub(super) struct Maker {
    pub loader: Loader,
    pub position: Position,
    /// Where it ends; `None`: nowhere.
    last_epoch: Option<u64>,
    /// The order of an epoch.
    order: Option<(u64, Order)>,
}

impl Maker {
    /// What `read` makes of the examples of the next batch: the data set, their numbers and the key of
    /// the epoch. Where the batch is, and where the one after it.
    pub fn make<R>(
        &mut self,
        read: impl FnOnce(&dyn Dataset, &[usize], Key) -> Result<R>,
    ) -> Result<(R, Position, Position)> {
        let position = self.position;
        let order = match self.order.take() {
            Some((epoch, order)) if epoch == position.epoch => order,
            _ => self.loader.order_of(position.epoch)?,
        };
        let start = position.batch as usize * self.loader.batch_size;
        let indices = order.at(start..start + self.loader.examples_at(position));
        let key = self.loader.keys()[1].fold_in(position.epoch);
        let made = catch_unwind(AssertUnwindSafe(|| read(&*self.loader.dataset, &indices, key)));
        let made = made.unwrap_or_else(|panic| Err(panicked(&*panic)))?;
        self.order = Some((position.epoch, order));
        self.position = self.loader.settle(Position { batch: position.batch + 1, ..position });
        Ok((made, position, self.position))
    }

    /// Whether there is another batch.
    pub fn settled(&mut self) -> bool {
        self.position = self.loader.settle(self.position);
        self.last_epoch.is_none_or(|last| self.position.epoch == last)
    }

    /// Nothing comes after an error: the position would stay where it is.
    pub fn end(&mut self) {
        self.last_epoch = Some(self.position.epoch.wrapping_sub(1));
    }
}

impl Iterator for Maker {
    type Item = Result<Loaded>;

    fn next(&mut self) -> Option<Result<Loaded>> {
        if !self.settled() {
            return None;
        }
        let made = self.make(|dataset, indices, key| dataset.batch(indices, key));
        let loaded = made.map(|(batch, position, next)| Loaded { batch, position, next });
        if loaded.is_err() {
            self.end();
        }
        Some(loaded)
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = text.unwrap_or_else(|| "without a message".into());
    Error::Panic { op: OP, what: "the data set", message }
}

/// The batches of a [`Loader`], one after the other. After an error there are no more.
///
/// Dropping it ends its thread.
pub struct Batches(Ahead<Loaded>);

impl Iterator for Batches {
    type Item = Result<Loaded>;

    fn next(&mut self) -> Option<Result<Loaded>> {
        self.0.next()
    }
}
