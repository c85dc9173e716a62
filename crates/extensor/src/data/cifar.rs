//! The binary files of CIFAR-10 and CIFAR-100: a label or two and 3 × 32 × 32 bytes, again and again.
//!
//! This module must not know what the classes are called.

use super::Images;
use super::gzip::Stream;
use crate::io::{fault, shown};
use crate::{Result, Tensor};
use std::path::Path;

const READ: &str = "cifar::read";
const PIXELS: usize = 3 * 32 * 32;

/// Which of the two it is, and which label counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CIFAR-10: one label.
    Ten,
    /// CIFAR-100 by its 20 coarse labels.
    HundredCoarse,
    /// CIFAR-100 by its 100 fine labels.
    HundredFine,
}

impl Kind {
    fn labels(self) -> usize {
        if self == Kind::Ten { 1 } else { 2 }
    }

    fn classes(self) -> u8 {
        match self {
            Kind::Ten => 10,
            Kind::HundredCoarse => 20,
            Kind::HundredFine => 100,
        }
    }
}

/// Reads one or more binary files, plain or gzipped, one after the other.
pub fn read<P: AsRef<Path>>(paths: &[P], kind: Kind) -> Result<Images> {
    let mut all = Examples::default();
    for path in paths {
        all.add(Stream::open(READ, path.as_ref())?, kind)?;
    }
    all.into_images()
}

/// Reads the bytes of a binary file.
///
/// ```
/// use extensor::data::{Dataset, cifar};
/// let mut bytes = vec![6]; // one example of class 6, all black
/// bytes.extend([0; 3072]);
/// let images = cifar::parse(&bytes, cifar::Kind::Ten)?;
/// assert_eq!(images.images().shape(), [1, 3, 32, 32]);
/// assert_eq!(images.labels(), [6]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn parse(bytes: &[u8], kind: Kind) -> Result<Images> {
    let mut all = Examples::default();
    all.add(Stream::of(READ, bytes)?, kind)?;
    all.into_images()
}

/// The images to train on and those to test with of a folder: `data_batch_1.bin` to `data_batch_5.bin`
/// and `test_batch.bin` of CIFAR-10, or `train.bin` and `test.bin` of CIFAR-100.
pub fn folder(folder: impl AsRef<Path>, kind: Kind) -> Result<(Images, Images)> {
    let folder = folder.as_ref();
    let (train, test): (Vec<String>, _) = match kind {
        Kind::Ten => ((1..=5).map(|i| format!("data_batch_{i}.bin")).collect(), "test_batch.bin"),
        _ => (vec!["train.bin".into()], "test.bin"),
    };
    let file = |name: &str| {
        let plain = folder.join(name);
        let packed = folder.join(format!("{name}.gz"));
        match (plain.is_file(), packed.is_file()) {
            (true, _) => Ok(plain),
            (false, true) => Ok(packed),
            _ => Err(fault("cifar::folder", &shown(folder), format!("it has no file {name}[.gz]"))),
        }
    };
    let train = train.iter().map(|name| file(name)).collect::<Result<Vec<_>>>()?;
    Ok((read(&train, kind)?, read(&[file(test)?], kind)?))
}

#[derive(Default)]
struct Examples {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Examples {
    fn add(&mut self, mut stream: Stream<'_>, kind: Kind) -> Result<()> {
        let size = kind.labels() + PIXELS;
        let mut number = 0;
        while let Some(example) = stream.take_or_end(size as u64)? {
            // The label that counts is the last, but for coarse ones the first of two.
            let at = if kind == Kind::HundredFine { 1 } else { 0 };
            let (label, classes) = (example[at], kind.classes());
            if label >= classes {
                let reason =
                    format!("example {number} has class {label}, expected one of {classes}");
                return Err(stream.fault(reason));
            }
            self.labels.push(label);
            self.pixels.extend(&example[kind.labels()..]);
            number += 1;
        }
        Ok(())
    }

    fn into_images(self) -> Result<Images> {
        let count = self.labels.len();
        let images = Tensor::from_vec(self.pixels, [count, 3, 32, 32])?;
        Images::new(images, Tensor::from_vec(self.labels, [count])?)
    }
}
