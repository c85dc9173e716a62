//! The training set of MNIST, gzipped, in the IDX format: two constants.
//!
//! It is a crate of its own because a crate may not be larger than 10 MiB, and the program that has it
//! compiled in would be.

#![forbid(unsafe_code)]
#![no_std]

/// 60,000 pictures of 28 × 28 bytes.
pub const IMAGES: &[u8] = include_bytes!("../data/train-images-idx3-ubyte.gz");
/// Their 60,000 digits.
pub const LABELS: &[u8] = include_bytes!("../data/train-labels-idx1-ubyte.gz");
