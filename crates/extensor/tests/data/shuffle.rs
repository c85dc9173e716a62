//! The order that is computed place by place.

use extensor::data::{Batch, Dataset, Loader, Position, Shuffle};
use extensor::{Key, Result, tensor};

fn is_permutation(order: &Shuffle) -> bool {
    let mut seen = vec![false; order.len()];
    order.iter().all(|number| !std::mem::replace(&mut seen[number], true))
        && seen.iter().all(|&seen| seen)
}

#[test]
fn every_number_is_in_the_order_exactly_once() {
    for len in (0..600).chain([1 << 16, (1 << 16) + 1, 1_000_003]) {
        let seeds = if len < 600 { 5 } else { 1 };
        for seed in 0..seeds {
            assert!(is_permutation(&Shuffle::new(Key::new(seed), len)), "{len} by {seed}");
        }
    }
}

#[test]
fn the_order_depends_on_the_key_and_any_place_of_it_is_known_at_once() {
    let of = |seed: u64, len: usize| Shuffle::new(Key::new(seed), len);
    let first = |seed| (0..8).map(|place| of(seed, usize::MAX).at(place)).collect::<Vec<_>>();
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
    assert!(first(1).iter().any(|&number| number > usize::MAX / 2));
    let all: Vec<usize> = of(3, 1000).iter().collect();
    assert!((0..1000).rev().all(|place| of(3, 1000).at(place) == all[place]));
    // What runs made today must find tomorrow.
    assert_eq!(of(7, 10).iter().collect::<Vec<_>>(), [6, 8, 3, 2, 1, 4, 7, 9, 0, 5]);
    assert_eq!(first(7)[..2], [9023005722209487020, 9813820814819246119]);
}

#[test]
#[should_panic(expected = "place 3 of an order of 3 numbers")]
fn a_place_beyond_the_order_is_refused() {
    Shuffle::new(Key::new(0), 3).at(3);
}

/// How far counts are from equal ones, in standard deviations of χ².
fn deviation(counts: &[f64], freedom: f64) -> f64 {
    let expected = counts.iter().sum::<f64>() / counts.len() as f64;
    let square: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
    (square - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn every_number_is_as_likely_at_every_place_and_beside_every_other() {
    // Few numbers, many keys: the number at each place, and the numbers at the first two.
    let (len, keys) = (13, 40_000);
    let (mut at, mut beside) = (vec![0.0; len * len], vec![0.0; len * len]);
    for seed in 0..keys {
        let order: Vec<usize> = Shuffle::new(Key::new(seed).fold_in(1), len).iter().collect();
        order.iter().enumerate().for_each(|(place, number)| at[place * len + number] += 1.0);
        beside[order[0] * len + order[1]] += 1.0;
    }
    let beside: Vec<f64> = beside.into_iter().filter(|&count| count > 0.0).collect();
    assert_eq!(beside.len(), len * (len - 1));
    let found = deviation(&at, ((len - 1) * (len - 1)) as f64);
    assert!(found.abs() < 5.0, "places: {found}");
    let found = deviation(&beside, (beside.len() - 1) as f64);
    assert!(found.abs() < 5.0, "neighbours: {found}");

    // Many numbers, one key: a number and its place, and a number and the next, both in 64 classes.
    let len = 300_000;
    let order: Vec<usize> = Shuffle::new(Key::new(5), len).iter().collect();
    let (mut at, mut step) = (vec![0.0; 64 * 64], vec![0.0; 64 * 64]);
    let class = |number: usize| number * 64 / len;
    for (place, pair) in order.windows(2).enumerate() {
        at[class(place) * 64 + class(pair[0])] += 1.0;
        step[class((pair[1] + len - pair[0]) % len) * 64 + class(pair[0])] += 1.0;
    }
    for (what, counts) in [("places", at), ("steps", step)] {
        let found = deviation(&counts, 63.0 * 63.0);
        assert!(found.abs() < 5.0, "{what}: {found}");
    }
}

/// Examples that are their own numbers.
struct Numbers(usize);

impl Dataset for Numbers {
    fn len(&self) -> usize {
        self.0
    }
    fn batch(&self, indices: &[usize], _: Key) -> Result<Batch> {
        let numbers = tensor(indices.iter().map(|&i| i as i64).collect::<Vec<_>>());
        Ok(Batch { inputs: numbers.clone(), targets: numbers })
    }
}

#[test]
fn a_loader_of_more_examples_than_memory_could_list_shuffles_them_all() {
    let len = 1 << 44;
    let loader = Loader::new(Numbers(len), 4, Key::new(1)).unwrap().shuffle(true);
    let [orders, _] = Key::new(1).split();
    let order = Shuffle::new(orders.fold_in(3), len);
    for batch in [0, 1, loader.batches_per_epoch() - 1] {
        let mut from = loader.start_at(Position { epoch: 3, batch }).unwrap();
        let numbers = from.next().unwrap().unwrap().batch.inputs.to_vec::<i64>().unwrap();
        let places = 4 * batch as usize..4 * batch as usize + 4;
        assert_eq!(numbers, places.map(|place| order.at(place) as i64).collect::<Vec<_>>());
    }
    // In their own order likewise.
    let loader = Loader::new(Numbers(len), 4, Key::new(1)).unwrap();
    let mut from = loader.start_at(Position { epoch: 0, batch: (1 << 42) - 1 }).unwrap();
    let numbers = from.next().unwrap().unwrap().batch.inputs.to_vec::<i64>().unwrap();
    assert_eq!(numbers, (len as i64 - 4..len as i64).collect::<Vec<_>>());
    // The whole order cannot be had, which is an error and not the end of the process.
    assert!(loader.order(0).is_err() && loader.shuffle(true).order(0).is_err());
}

#[test]
fn the_order_a_loader_tells_is_the_one_it_takes_on_both_sides_of_the_limit() {
    for len in [1 << 24, (1 << 24) + 1] {
        let loader = Loader::new(Numbers(len), 1000, Key::new(2)).unwrap().shuffle(true);
        let order = loader.order(1).unwrap();
        for loaded in loader.epoch(1).unwrap().take(3) {
            let loaded = loaded.unwrap();
            let start = 1000 * loaded.position.batch as usize;
            let numbers = loaded.batch.inputs.to_vec::<i64>().unwrap();
            assert!(numbers.iter().zip(&order[start..]).all(|(&a, &b)| a == b as i64));
        }
        let mut seen = vec![false; len];
        order.iter().for_each(|&number| seen[number] = true);
        assert!(order.len() == len && seen.iter().all(|&seen| seen));
        // A list is shuffled by exchanges, and what is computed is not that list.
        let [orders, _] = Key::new(2).split();
        let computed = Shuffle::new(orders.fold_in(1), len).iter().take(100);
        assert_eq!(computed.eq(order[..100].iter().copied()), len > 1 << 24);
    }
}
