//! A random order of which any place can be computed by itself.
//!
//! A list of all numbers in a random order takes memory and time for all of them before the first is
//! known. This module must not know what is in that order.

use crate::Key;
use extensor_kernels::random::philox;

/// Rounds of the network. Four of independent random functions are a random order to whoever sees far fewer places
/// than there are; twice as many cost 0.1 µs more and leave room for small sets.
const ROUNDS: u128 = 8;

/// The numbers from 0 to `len − 1` in a random order that depends on the key alone, without a list of them.
///
/// The bits of a number are cut in two, and one part after the other is changed by a random function of
/// the other part (a Feistel network): that can be undone, so no two numbers become the same. What is
/// beyond `len` is sent through again, until it is not: less than once on average.
///
/// ```
/// use extensor::{Key, data::Shuffle};
/// let order = Shuffle::new(Key::new(7), 1 << 40);
/// let first: Vec<usize> = (0..3).map(|place| order.at(place)).collect();
/// println!("{first:?}"); // known at once, and without 8 TiB of memory
/// let mut all: Vec<usize> = Shuffle::new(Key::new(7), 10).iter().collect();
/// all.sort();
/// assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    seed: u64,
    len: usize,
    /// How many bits the low and the high part have.
    bits: [u32; 2],
}

impl Shuffle {
    /// Of the numbers below `len`.
    pub fn new(key: Key, len: usize) -> Shuffle {
        // Below 2 to the sum of both are all numbers, and fewer than twice as many.
        let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
        Shuffle { seed: key.seed(), len, bits: [bits / 2, bits - bits / 2] }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number at a place.
    ///
    /// # Panics
    /// If the place is not below `len`.
    #[track_caller]
    pub fn at(&self, place: usize) -> usize {
        assert!(place < self.len, "place {place} of an order of {} numbers", self.len);
        let mut number = place as u64;
        loop {
            number = self.through(number);
            // `place` comes round again at last, if nothing else: this ends.
            if number < self.len as u64 {
                return number as usize;
            }
        }
    }

    /// All numbers in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + use<> {
        let order = *self;
        (0..order.len).map(move |place| order.at(place))
    }

    /// Once through the network.
    fn through(&self, number: u64) -> u64 {
        let [low_bits, high_bits] = self.bits;
        let mask = |bits: u32| (1u64 << bits) - 1;
        let (mut low, mut high) = (number & mask(low_bits), number >> low_bits);
        for round in 0..ROUNDS {
            // One part in turn is the counter of a block of random bits for the other.
            let random = |part: u64| {
                let [a, b, _, _] = philox(self.seed, round << 64 | u128::from(part));
                u64::from(a) << 32 | u64::from(b)
            };
            match round % 2 {
                0 => high ^= random(low) & mask(high_bits),
                _ => low ^= random(high) & mask(low_bits),
            }
        }
        high << low_bits | low
    }
}
