//! Windows of a text whose tokens are in files.
//!
//! This module must not know what predicts them.

use super::Rows;
use crate::data::text::{expect_window, start_of};
use crate::data::{Batch, Dataset, expect_indices};
use crate::ops::cast;
use crate::{DType, Error, Key, Result, Tensor};

const OP: &str = "StoredWindows";

/// Windows of a text whose tokens are in files: what [`Windows`](crate::data::text::Windows) is for
/// tokens in memory, with the same batches to the bit.
///
/// A text that is too large to be encoded at once is encoded piece by piece, a file for each; windows go
/// over their ends.
///
/// ```
/// use extensor::data::{Dataset, Rows, StoredWindows, text::Vocabulary};
/// use extensor::{Key, io::npy};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-tokens-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let vocabulary = Vocabulary::of("abracadabra");
/// let files = [folder.join("0.npy"), folder.join("1.npy")];
/// for (file, piece) in files.iter().zip(["abrac", "adabra"]) {
///     npy::write(file, &vocabulary.encode(piece)?)?;
/// }
/// let windows = StoredWindows::in_order(Rows::open(&files)?, 3)?;
/// let batch = windows.batch(&[1], Key::new(0))?;
/// assert_eq!(batch.inputs.to_vec::<i64>()?, [0, 2, 0]); // "aca"
/// assert_eq!(batch.targets.to_vec::<i64>()?, [2, 0, 3]); // "cad"
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoredWindows {
    tokens: Rows,
    length: usize,
    count: usize,
    random: bool,
}

impl StoredWindows {
    /// One after the other, each token predicted once, without a rest that does not fill a window.
    pub fn in_order(tokens: Rows, length: usize) -> Result<StoredWindows> {
        let windows = StoredWindows::new(tokens, length)?;
        Ok(StoredWindows { count: (windows.tokens.len() - 1) / length, ..windows })
    }

    /// `count` in an epoch, from places drawn from the key each time.
    pub fn random(tokens: Rows, length: usize, count: usize) -> Result<StoredWindows> {
        let windows = StoredWindows::new(tokens, length)?;
        Ok(StoredWindows { count, random: true, ..windows })
    }

    fn new(tokens: Rows, length: usize) -> Result<StoredWindows> {
        if !tokens.shape().is_empty() {
            let (expected, got) = ("rows of one number".into(), tokens.shape().clone());
            return Err(Error::Shape { op: OP, argument: "tokens", expected, got });
        }
        if !matches!(tokens.dtype(), DType::U8 | DType::U16 | DType::U32) {
            let (expected, got) = ("u8, u16 or u32", tokens.dtype());
            return Err(Error::DType { op: OP, argument: "tokens", expected, got });
        }
        expect_window(OP, tokens.len(), length)?;
        Ok(StoredWindows { tokens, length, count: 0, random: false })
    }

    /// Tokens in a window's inputs.
    pub fn window(&self) -> usize {
        self.length
    }
}

impl Dataset for StoredWindows {
    fn len(&self) -> usize {
        self.count
    }

    fn batch(&self, indices: &[usize], key: Key) -> Result<Batch> {
        expect_indices(OP, indices, self.count)?;
        let length = self.length;
        let mut inputs = crate::tensor::with_room(OP, indices.len() * length)?;
        let mut targets = crate::tensor::with_room(OP, indices.len() * length)?;
        for &index in indices {
            let start = start_of(index, self.random.then_some(key), length, self.tokens.len())?;
            // A window and the token after it: its inputs and its targets.
            let part = cast(&self.tokens.range(start..start + length + 1)?, DType::I64)?;
            let part = part.row_major::<i64>();
            inputs.extend_from_slice(&part[..length]);
            targets.extend_from_slice(&part[1..]);
        }
        let shape = [indices.len(), length];
        Ok(Batch {
            inputs: Tensor::from_vec(inputs, shape)?,
            targets: Tensor::from_vec(targets, shape)?,
        })
    }
}
