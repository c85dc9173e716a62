//! Plain text as numbers: characters by a vocabulary, cut into windows.
//!
//! Tokens are kept in the narrowest dtype that holds them. This module must not know what predicts
//! them.

use super::gzip::Stream;
use super::{Batch, Dataset, expect_indices};
use crate::ops::slice;
use crate::{DType, Error, Key, Result, Tensor};
use std::path::Path;

/// The longest text that is read: gzipped ones could be of any length.
const LONGEST: u64 = 1 << 32;

/// Reads a UTF-8 text, plain or gzipped, of up to 4 GiB.
pub fn read(path: impl AsRef<Path>) -> Result<String> {
    Stream::open("text::read", path.as_ref())?.text(LONGEST)
}

/// Reads the bytes of a UTF-8 text, plain or gzipped.
///
/// ```
/// assert_eq!(extensor::data::text::parse(b"To be, or not to be")?, "To be, or not to be");
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<String> {
    Stream::of("text::parse", bytes)?.text(LONGEST)
}

/// The characters of a text, numbered in the order of their code points.
///
/// ```
/// use extensor::data::text::Vocabulary;
/// let vocabulary = Vocabulary::of("abracadabra");
/// assert_eq!(vocabulary.characters(), "abcdr");
/// let tokens = vocabulary.encode("bad")?;
/// assert_eq!(tokens.to_vec::<u8>()?, [1, 0, 3]);
/// assert_eq!(vocabulary.decode(&[1, 0, 3])?, "bad");
/// assert!(vocabulary.encode("bed").is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary(Vec<char>);

impl Vocabulary {
    /// Of all characters that are in a text: their order in it does not matter, so that the vocabulary
    /// of [`characters`](Self::characters) is the same again.
    pub fn of(text: &str) -> Vocabulary {
        let mut characters: Vec<char> = Vec::new();
        for c in text.chars() {
            if let Err(at) = characters.binary_search(&c) {
                characters.insert(at, c);
            }
        }
        Vocabulary(characters)
    }

    /// All characters, sorted.
    pub fn characters(&self) -> String {
        self.0.iter().collect()
    }

    /// How many characters there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The dtype of tokens: `u8` for up to 256 characters, then `u16`, then `u32`.
    pub fn dtype(&self) -> DType {
        match self.0.len() {
            0..=256 => DType::U8,
            257..=65536 => DType::U16,
            _ => DType::U32,
        }
    }

    /// A text as numbers of characters; one that is not in the vocabulary is an error.
    pub fn encode(&self, text: &str) -> Result<Tensor> {
        let number = |(at, c): (usize, char)| {
            self.0.binary_search(&c).map_err(|_| {
                let before = &text.as_bytes()[..at];
                let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
                Error::Parameter {
                    op: "Vocabulary::encode",
                    parameter: "text",
                    expected: format!("only the {} characters of the vocabulary", self.0.len()),
                    got: format!("one with {c:?} in line {line}"),
                }
            })
        };
        let numbers = text.char_indices().map(number);
        fn all<T: crate::Element>(
            numbers: impl Iterator<Item = Result<usize>>,
            narrow: impl Fn(usize) -> T,
        ) -> Result<Tensor> {
            let tokens = numbers.map(|n| n.map(&narrow)).collect::<Result<Vec<T>>>()?;
            let count = tokens.len();
            Tensor::from_vec(tokens, [count])
        }
        match self.dtype() {
            DType::U8 => all(numbers, |n| n as u8),
            DType::U16 => all(numbers, |n| n as u16),
            _ => all(numbers, |n| n as u32),
        }
    }

    /// The text of these numbers.
    pub fn decode(&self, tokens: &[usize]) -> Result<String> {
        expect_indices("Vocabulary::decode", tokens, self.0.len())?;
        Ok(tokens.iter().map(|&t| self.0[t]).collect())
    }
}

/// The first tokens, of a share `train` of all, and the rest, to validate on.
///
/// ```
/// use extensor::{data::text, tensor};
/// let (train, validation) = text::split(&tensor([1u8, 2, 3, 4, 5, 6, 7, 8, 9, 10]), 0.8)?;
/// assert_eq!(validation.to_vec::<u8>()?, [9, 10]);
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn split(tokens: &Tensor, train: f64) -> Result<(Tensor, Tensor)> {
    if !(0.0..=1.0).contains(&train) {
        let (expected, got) = ("a share from 0 to 1".into(), train.to_string());
        return Err(Error::Parameter { op: "text::split", parameter: "train", expected, got });
    }
    expect_tokens("text::split", tokens)?;
    let at = (tokens.len() as f64 * train) as usize;
    let part = |from: usize, to: usize| slice(tokens, 0, from as i64, to as i64, 1);
    Ok((part(0, at)?, part(at, tokens.len())?))
}

fn expect_tokens(op: &'static str, tokens: &Tensor) -> Result<()> {
    if tokens.ndim() != 1 {
        let (expected, got) = ("[n]".into(), tokens.shape().clone());
        return Err(Error::Shape { op, argument: "tokens", expected, got });
    }
    if !matches!(tokens.dtype(), DType::U8 | DType::U16 | DType::U32) {
        let (expected, got) = ("u8, u16 or u32", tokens.dtype());
        return Err(Error::DType { op, argument: "tokens", expected, got });
    }
    Ok(())
}

/// Windows of a text: the inputs are `length` tokens, the targets the same places one token on.
///
/// ```
/// use extensor::{Key, data::{Dataset, text::Windows}, tensor};
/// let windows = Windows::in_order(tensor([5u8, 6, 7, 8, 9]), 2)?;
/// let batch = windows.batch(&[0, 1], Key::new(0))?;
/// assert_eq!(batch.inputs.to_vec::<i64>()?, [5, 6, 7, 8]);
/// assert_eq!(batch.targets.to_vec::<i64>()?, [6, 7, 8, 9]);
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Windows {
    tokens: Tensor,
    length: usize,
    count: usize,
    random: bool,
}

impl Windows {
    /// One after the other, each token predicted once, without a rest that does not fill a window: to
    /// validate on.
    pub fn in_order(tokens: Tensor, length: usize) -> Result<Windows> {
        let windows = Windows::new(tokens, length)?;
        Ok(Windows { count: (windows.tokens.len() - 1) / length, ..windows })
    }

    /// `count` in an epoch, from places drawn from the key each time: to train on.
    pub fn random(tokens: Tensor, length: usize, count: usize) -> Result<Windows> {
        let windows = Windows::new(tokens, length)?;
        Ok(Windows { count, random: true, ..windows })
    }

    fn new(tokens: Tensor, length: usize) -> Result<Windows> {
        expect_tokens("Windows", &tokens)?;
        expect_window("Windows", tokens.len(), length)?;
        let tokens = tokens.contiguous()?;
        Ok(Windows { tokens, length, count: 0, random: false })
    }

    /// Tokens in a window's inputs.
    pub fn window(&self) -> usize {
        self.length
    }
}

/// An error unless so many tokens have a window of this length and a token after it.
pub(super) fn expect_window(op: &'static str, tokens: usize, length: usize) -> Result<()> {
    if length == 0 || length >= tokens {
        let expected = format!("1 to {}, one less than there are tokens", tokens.max(1) - 1);
        let got = length.to_string();
        return Err(Error::Parameter { op, parameter: "length", expected, got });
    }
    Ok(())
}

/// Where window `index` begins: after those before it, or at a place that is drawn from a key.
pub(super) fn start_of(
    index: usize,
    drawn: Option<Key>,
    length: usize,
    tokens: usize,
) -> Result<usize> {
    let Some(key) = drawn else { return Ok(index * length) };
    let places = (tokens - length) as u64;
    Ok(key.fold_in(index as u64).integers([1], places)?.item::<i64>()? as usize)
}

impl Dataset for Windows {
    fn len(&self) -> usize {
        self.count
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        expect_indices("Windows", indices, self.count)?;
        let drawn = self.random.then_some(key);
        let start = |&index: &usize| start_of(index, drawn, self.length, self.tokens.len());
        let starts = indices.iter().map(start).collect::<Result<Vec<_>>>()?;
        let part = |by: usize| {
            let mut out = Vec::with_capacity(starts.len() * self.length);
            for start in &starts {
                let range = start + by..start + by + self.length;
                let tokens = &self.tokens;
                match tokens.dtype() {
                    DType::U8 => widen(&mut out, tokens.as_slice::<u8>()?, range),
                    DType::U16 => widen(&mut out, tokens.as_slice::<u16>()?, range),
                    _ => widen(&mut out, tokens.as_slice::<u32>()?, range),
                }
            }
            Tensor::from_vec(out, [starts.len(), self.length])
        };
        Ok(Batch { inputs: part(0)?, targets: part(1)? })
    }
}

fn widen<T: Copy + Into<i64>>(out: &mut Vec<i64>, all: &[T], range: std::ops::Range<usize>) {
    out.extend(all[range].iter().map(|&token| token.into()));
}
