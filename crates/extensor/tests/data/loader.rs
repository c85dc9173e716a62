//! The loader.

use extensor::data::{Augment, Batch, Batches, Dataset, Images, Loader, Pairs, Position};
use extensor::{Error, Key, Result, Tensor, tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn numbers(count: usize) -> Pairs {
    let all: Vec<i64> = (0..count as i64).collect();
    Pairs::new(tensor(all.clone()), tensor(all)).unwrap()
}

fn values(batch: &Batch) -> Vec<i64> {
    assert_eq!(batch.inputs.to_vec::<i64>().unwrap(), batch.targets.to_vec::<i64>().unwrap());
    batch.inputs.to_vec::<i64>().unwrap()
}

fn all(batches: Batches) -> Vec<Vec<i64>> {
    batches.map(|loaded| values(&loaded.unwrap().batch)).collect()
}

#[test]
fn batches_follow_the_order_and_the_rest_is_kept_or_dropped() {
    for prefetch in [0, 1, 2, 5] {
        let loader = Loader::new(numbers(7), 3, Key::new(0)).unwrap().prefetch(prefetch);
        assert_eq!(loader.batches_per_epoch(), 3);
        assert_eq!(all(loader.epoch(4).unwrap()), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        let loader = loader.drop_last(true);
        assert_eq!(loader.batches_per_epoch(), 2);
        assert_eq!(all(loader.epoch(0).unwrap()), [vec![0, 1, 2], vec![3, 4, 5]]);
        assert_eq!(
            all(Loader::new(numbers(6), 3, Key::new(0)).unwrap().epoch(0).unwrap()).len(),
            2
        );
    }
}

#[test]
fn each_epoch_is_a_permutation_of_its_own_that_key_and_epoch_decide() {
    let loader = |seed| Loader::new(numbers(100), 7, Key::new(seed)).unwrap().shuffle(true);
    let first: Vec<i64> = all(loader(1).epoch(0).unwrap()).concat();
    let mut sorted = first.clone();
    sorted.sort();
    assert_eq!(sorted, (0..100).collect::<Vec<i64>>());
    assert_eq!(all(loader(1).epoch(0).unwrap()).concat(), first);
    assert_ne!(all(loader(1).epoch(1).unwrap()).concat(), first);
    assert_ne!(all(loader(2).epoch(0).unwrap()).concat(), first);
    // The batch size does not matter to the order.
    let other = Loader::new(numbers(100), 100, Key::new(1)).unwrap().shuffle(true);
    assert_eq!(all(other.epoch(0).unwrap()).concat(), first);
}

#[test]
fn every_permutation_is_equally_likely() {
    let loader = Loader::new(numbers(4), 4, Key::new(3)).unwrap().shuffle(true);
    let mut counts = std::collections::BTreeMap::new();
    for epoch in 0..4800 {
        *counts.entry(loader.order(epoch).unwrap()).or_insert(0usize) += 1;
    }
    assert_eq!(counts.len(), 24);
    // 200 expected of each, with a standard deviation of 14.
    assert!(counts.values().all(|&count| (130..270).contains(&count)), "{counts:?}");
}

#[test]
fn what_follows_a_position_is_the_same_wherever_the_loader_started() {
    let bytes: Vec<u8> = (0..11 * 12).collect();
    let images = Tensor::from_vec(bytes, [11, 3, 4]).unwrap();
    let labels = tensor((0..11u8).collect::<Vec<_>>());
    let images = Images::new(images, labels).unwrap().augment(Augment { shift: 1, flip: true });
    let images = Arc::new(images);
    let loader = |prefetch| {
        let loader = Loader::new(images.clone(), 4, Key::new(9)).unwrap();
        loader.shuffle(true).prefetch(prefetch)
    };
    let bits = |batch: &Batch| {
        let inputs: Vec<u32> = batch.inputs.iter::<f32>().unwrap().map(f32::to_bits).collect();
        (inputs, batch.targets.to_vec::<i64>().unwrap())
    };
    let start = Position::default();
    let whole: Vec<_> =
        loader(2).start_at(start).unwrap().take(10).map(|loaded| loaded.unwrap()).collect();
    for (i, loaded) in whole.iter().enumerate() {
        let expected = Position { epoch: i as u64 / 3, batch: i as u64 % 3 };
        assert_eq!(loaded.position, expected);
        let threads = if i % 2 == 0 { 1 } else { 2 };
        let rest = extensor::threads::with(threads, || {
            let rest = loader(i % 3).start_at(loaded.position).unwrap();
            rest.take(10 - i).map(|loaded| loaded.unwrap()).collect::<Vec<_>>()
        });
        for (a, b) in whole[i..].iter().zip(&rest) {
            assert_eq!((a.position, a.next), (b.position, b.next));
            assert_eq!(bits(&a.batch), bits(&b.batch));
        }
        assert_eq!(rest.len(), 10 - i);
    }
    // The end of an epoch is the beginning of the next.
    let end = Position { epoch: 0, batch: 3 };
    let next = loader(2).start_at(end).unwrap().next().unwrap().unwrap();
    assert_eq!(next.position, Position { epoch: 1, batch: 0 });
    assert!(loader(2).rest_of_epoch(end).unwrap().next().is_none());
    assert_eq!(loader(2).rest_of_epoch(Position { epoch: 1, batch: 1 }).unwrap().count(), 2);
    assert!(loader(2).start_at(Position { epoch: 0, batch: 4 }).is_err());
}

/// Counts its batches; the one with example `bad` does what `then` says.
struct Watched {
    made: Arc<AtomicUsize>,
    bad: usize,
    then: fn() -> Result<Batch>,
}

impl Dataset for Watched {
    fn len(&self) -> usize {
        1000
    }
    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        self.made.fetch_add(1, Ordering::SeqCst);
        if indices.contains(&self.bad) {
            return (self.then)();
        }
        numbers(1000).batch(indices, key)
    }
}

fn watched(bad: usize, then: fn() -> Result<Batch>) -> (Arc<AtomicUsize>, Loader) {
    let made = Arc::new(AtomicUsize::new(0));
    let dataset = Watched { made: made.clone(), bad, then };
    (made, Loader::new(dataset, 1, Key::new(0)).unwrap())
}

#[test]
fn no_more_batches_are_made_ahead_than_asked_for() {
    for ahead in [1, 2, 4] {
        let (made, loader) = watched(usize::MAX, || unreachable!());
        let mut batches = loader.prefetch(ahead).start_at(Position::default()).unwrap();
        for taken in 1..4 {
            batches.next().unwrap().unwrap();
            let deadline = Instant::now() + Duration::from_secs(20);
            while made.load(Ordering::SeqCst) < taken + ahead {
                assert!(Instant::now() < deadline, "the thread does not work ahead");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(made.load(Ordering::SeqCst), taken + ahead);
        }
    }
}

#[test]
fn dropping_the_batches_ends_the_thread() {
    for taken in 0..5 {
        let (made, loader) = watched(usize::MAX, || unreachable!());
        let dataset = Arc::downgrade(loader.dataset());
        let mut batches = loader.start_at(Position::default()).unwrap();
        drop(loader);
        for _ in 0..taken {
            batches.next().unwrap().unwrap();
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(batches);
            sender.send(()).unwrap();
        });
        receiver.recv_timeout(Duration::from_secs(20)).expect("dropping hangs");
        assert!(dataset.upgrade().is_none(), "the thread still holds the data set");
        assert!(made.load(Ordering::SeqCst) <= taken + 2);
    }
}

#[test]
fn an_error_reaches_the_caller_in_its_place_and_is_the_last_thing() {
    for prefetch in [0, 2] {
        let (_, loader) = watched(3, || Err(Error::DivisionByZero { op: "test" }));
        let mut batches = loader.prefetch(prefetch).start_at(Position::default()).unwrap();
        for expected in 0..3 {
            assert_eq!(values(&batches.next().unwrap().unwrap().batch), [expected]);
        }
        let error = batches.next().unwrap().unwrap_err();
        assert_eq!(error, Error::DivisionByZero { op: "test" });
        assert!(batches.next().is_none() && batches.next().is_none());
    }
}

#[test]
fn a_panic_reaches_the_caller_as_an_error() {
    for prefetch in [0, 2] {
        let (_, loader) = watched(1, || panic!("example {} is cursed", 1));
        let mut batches = loader.prefetch(prefetch).epoch(0).unwrap();
        batches.next().unwrap().unwrap();
        let error = batches.next().unwrap().unwrap_err().to_string();
        assert_eq!(error, "Loader: the data set panicked: example 1 is cursed");
        assert!(batches.next().is_none());
    }
}

#[test]
fn a_loader_of_nothing_is_an_error() {
    let empty = || Pairs::new(tensor(Vec::<f32>::new()), tensor(Vec::<i64>::new())).unwrap();
    assert!(Loader::new(empty(), 2, Key::new(0)).is_err());
    assert!(Loader::new(numbers(3), 0, Key::new(0)).is_err());
    let loader = Loader::new(numbers(3), 4, Key::new(0)).unwrap();
    assert_eq!(all(loader.epoch(0).unwrap()), [[0, 1, 2]]);
    assert!(loader.drop_last(true).epoch(0).is_err());
}
