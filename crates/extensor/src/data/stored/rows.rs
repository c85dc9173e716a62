//! One array in many files, read row by row.
//!
//! This module must not know what the rows mean.

use super::file::Shard;
use crate::data::expect_indices;
use crate::io::fault;
use crate::tensor::with_room;
use crate::{DType, Error, Result, Shape, Tensor};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const OP: &str = "Rows";
/// So many files are held open; a process may often have no more than 1024.
const OPEN: usize = 128;

/// An array in one file or in several, its shards, one after the other along the first axis. Nothing of
/// it is in memory: what is asked for is read.
///
/// A shard is an IDX file (not gzipped), a `.npy` file in row-major order, or a tensor in a safetensors
/// file, told by what it starts with. All have the same dtype and shape of rows, and each its own number
/// of them. A header is compared with the file's size when it is opened; a file that becomes shorter
/// afterwards is an error that names file and example. Checksums of safetensors files are not compared,
/// since that would be to read all of them.
///
/// ```
/// use extensor::{data::Rows, io::npy, tensor};
/// # let folder = std::env::temp_dir().join(format!("extensor-doc-rows-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let (a, b) = (folder.join("part-0.npy"), folder.join("part-1.npy"));
/// npy::write(&a, &tensor([[1.0f32, 2.0], [3.0, 4.0]]))?;
/// npy::write(&b, &tensor([[5.0f32, 6.0]]))?;
/// let rows = Rows::open(&[a, b])?;
/// assert_eq!((rows.len(), rows.shape().to_vec()), (3, vec![2]));
/// assert_eq!(rows.read(&[2, 0])?.to_vec::<f32>()?, [5.0, 6.0, 1.0, 2.0]);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Rows(Arc<Inner>);

struct Inner {
    shards: Vec<Shard>,
    /// The first row of each shard, and the number of all rows.
    starts: Vec<usize>,
    dtype: DType,
    row: Shape,
    /// Those of a row.
    bytes: usize,
}

impl Rows {
    /// The rows of these files, each with one array.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Rows> {
        Rows::of(paths, None)
    }

    /// The rows of the tensor of this name in each of these safetensors files.
    pub fn named<P: AsRef<Path>>(paths: &[P], tensor: &str) -> Result<Rows> {
        Rows::of(paths, Some(tensor))
    }

    fn of<P: AsRef<Path>>(paths: &[P], name: Option<&str>) -> Result<Rows> {
        let Some(first) = paths.first() else {
            let (expected, got) = ("one file or more".into(), "none".into());
            return Err(Error::Parameter { op: OP, parameter: "paths", expected, got });
        };
        let mut shards = with_room(OP, paths.len())?;
        let mut starts = with_room(OP, paths.len() + 1)?;
        let mut len = 0usize;
        let first = Shard::open(first.as_ref(), name, true)?;
        let (dtype, row) = (first.placed.dtype, Shape::from(&first.placed.shape[1..]));
        let mut next = Some(first);
        for (i, path) in paths.iter().enumerate() {
            let shard = match next.take() {
                Some(first) => first,
                None => Shard::open(path.as_ref(), name, i < OPEN)?,
            };
            let placed = &shard.placed;
            if placed.dtype != dtype || placed.shape[1..] != row[..] {
                let other = Shape::from(&placed.shape[1..]);
                let reason = format!(
                    "its rows are {} of shape {other}, and those of the first file, {}, are {dtype} of shape {row}",
                    placed.dtype,
                    shards.first().map_or(String::new(), Shard::name),
                );
                return Err(fault(OP, &shard.name(), reason));
            }
            starts.push(len);
            len = len.checked_add(shard.count).ok_or_else(|| {
                fault(OP, &shard.name(), "with it there are more rows than can be counted")
            })?;
            shards.push(shard);
        }
        starts.push(len);
        let bytes = row.count(OP)? * dtype.size();
        Ok(Rows(Arc::new(Inner { shards, starts, dtype, row, bytes })))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.0.starts.last().copied().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dtype of the numbers.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The shape of one row.
    pub fn shape(&self) -> &Shape {
        &self.0.row
    }

    /// How many rows each file has.
    pub fn shards(&self) -> impl Iterator<Item = usize> {
        self.0.shards.iter().map(|shard| shard.count)
    }

    /// The rows of these numbers, in this order, along the first axis.
    pub fn read(&self, indices: &[usize]) -> Result<Tensor> {
        expect_indices(OP, indices, self.len())?;
        self.tensor(indices.len(), |out| self.fill(indices.len(), |i| indices[i], out))
    }

    /// The rows of a range.
    pub fn range(&self, range: Range<usize>) -> Result<Tensor> {
        let Range { start, end } = range;
        if start > end || end > self.len() {
            let (expected, got) = (format!("a part of 0..{}", self.len()), format!("{range:?}"));
            return Err(Error::Parameter { op: OP, parameter: "range", expected, got });
        }
        self.tensor(end - start, |out| self.fill(end - start, |i| start + i, out))
    }

    fn tensor(&self, count: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Tensor> {
        let mut shape = self.0.row.clone();
        shape.insert(0, count);
        Tensor::from_bytes(OP, shape, self.0.dtype, fill)
    }

    /// Reads `count` rows that are all there. Neighbours in a file are read at once.
    fn fill(&self, count: usize, index: impl Fn(usize) -> usize, out: &mut [u8]) -> Result<()> {
        let Inner { shards, starts, bytes, .. } = &*self.0;
        let mut done = 0;
        while done < count {
            let first = index(done);
            // The last that starts here or before: those before it may be empty.
            let at = starts.partition_point(|&start| start <= first) - 1;
            let row = first - starts[at];
            let most = (shards[at].count - row).min(count - done);
            let run = (1..most).find(|&i| index(done + i) != first + i).unwrap_or(most);
            shards[at].read(row, first, &mut out[done * bytes..(done + run) * bytes])?;
            done += run;
        }
        Ok(())
    }

    /// Which file a row is in, for errors.
    pub(super) fn file_of(&self, index: usize) -> String {
        let at = self.0.starts.partition_point(|&start| start <= index).saturating_sub(1);
        self.0.shards.get(at).map_or(String::new(), Shard::name)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, files) = (self.len(), self.0.shards.len());
        write!(f, "Rows({count} of {} {} in {files} files)", self.0.dtype, self.0.row)
    }
}
