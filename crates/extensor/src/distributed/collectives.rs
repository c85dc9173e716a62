//! What ranks do together with trees of tensors.

use super::blocks::{Block, outline};
use super::flat::{Row, dtypes, unpack};
use super::group::{count_of, piece_of};
use super::reduce::Sum;
use super::transport::{Numbers, Piece};
use super::{Group, Order, Reduction, fallen};
use crate::autodiff::{Path, leaves, map};
use crate::{DType, Error, Result, Shape, Tensor, Tree, ops};
use extensor_kernels::combine::Combine;
use std::hash::{DefaultHasher, Hasher};

impl Group {
    /// Waits until every rank has come here.
    pub fn barrier(&self) -> Result<()> {
        let _claim = self.claim()?;
        self.exchange_fixed("barrier", &[0], |_| 1).map(drop)
    }

    /// The sum, mean, largest or smallest of the ranks' trees, leaf by leaf, on every rank: with the same
    /// bits on all, and in every run with as many ranks. The numbers are added in pairs of neighbours, as
    /// [`Blocks`](super::Blocks) does, in their own dtype.
    pub fn all_reduce<T: Tree>(&self, tree: &T, reduction: Reduction) -> Result<T> {
        self.all_reduce_in(tree, reduction, Order::Fixed)
    }

    /// [`all_reduce`](Group::all_reduce) in the given order.
    pub fn all_reduce_in<T: Tree>(
        &self,
        tree: &T,
        reduction: Reduction,
        order: Order,
    ) -> Result<T> {
        let op = "all_reduce";
        let how = match reduction {
            Reduction::Sum | Reduction::Mean => Combine::Sum,
            Reduction::Max => Combine::Max,
            Reduction::Min => Combine::Min,
        };
        for x in leaves(tree) {
            if reduction == Reduction::Mean {
                x.dtype().expect_float(op, "a leaf of a mean")?;
            } else if how == Combine::Sum && x.dtype() == DType::Bool {
                let expected = "a dtype of numbers";
                return Err(Error::DType {
                    op,
                    argument: "a leaf of a sum",
                    expected,
                    got: x.dtype(),
                });
            }
        }
        let _claim = self.claim()?;
        self.agree(op, || described(op, tree))?;
        let all = leaves(tree);
        let summed = match order {
            Order::Fixed => self.combine(op, how, &[all], self.size())?,
            Order::Fastest => self.combine_fastest(op, how, &all)?,
        };
        let mut summed = summed.into_iter();
        map(tree, |x| {
            let sum = summed.next().unwrap_or_else(|| x.clone());
            match reduction {
                Reduction::Mean => {
                    ops::divide(&sum, &Tensor::scalar_of(self.size() as f64, x.dtype())?)
                }
                _ => Ok(sum),
            }
        })
    }

    /// The sum of all parts of a step, on every rank, from the [blocks](super::Blocks) that each rank has made
    /// of [its own](Group::parts): the bits are those that one process finds with all parts. Buffers are those
    /// of part 0.
    ///
    /// ```
    /// use extensor::distributed::{Blocks, threads};
    /// use extensor::tensor;
    /// let part = |i: usize| tensor([0.1f32 * i as f32, 1.0]);
    /// let mut alone = Blocks::new();
    /// (0..5).try_for_each(|i| alone.push(i, part(i)))?;
    /// let alone = alone.total()?.unwrap();
    /// let sums = threads(3, |group| {
    ///     let mut blocks = Blocks::new();
    ///     group.parts(5).try_for_each(|i| blocks.push(i, part(i)))?;
    ///     group.reduce_blocks(blocks.into_vec(), 5)
    /// })?;
    /// assert!(sums.iter().all(|sum| sum.to_bytes() == alone.to_bytes()));
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn reduce_blocks<T: Tree>(&self, blocks: Vec<Block<T>>, parts: usize) -> Result<T> {
        self.reduce_blocks_in(blocks, parts, Order::Fixed)
    }

    /// [`reduce_blocks`](Group::reduce_blocks) in the given order.
    pub fn reduce_blocks_in<T: Tree>(
        &self,
        blocks: Vec<Block<T>>,
        parts: usize,
        order: Order,
    ) -> Result<T> {
        let _claim = self.claim()?;
        self.reduce("reduce_blocks", "", blocks, parts, order)
    }

    /// What [`reduce_blocks`](Group::reduce_blocks) does, for who has claimed the group.
    pub(super) fn reduce_claimed<T: Tree>(
        &self,
        op: &'static str,
        what: &str,
        blocks: Vec<Block<T>>,
        parts: usize,
    ) -> Result<T> {
        self.reduce(op, what, blocks, parts, Order::Fixed)
    }

    fn reduce<T: Tree>(
        &self,
        op: &'static str,
        what: &str,
        blocks: Vec<Block<T>>,
        parts: usize,
        order: Order,
    ) -> Result<T> {
        if parts < self.size() {
            let expected = format!("at least as many as ranks, {}", self.size());
            let got = parts.to_string();
            return Err(Error::Parameter { op, parameter: "parts", expected, got });
        }
        let held: Vec<(usize, u32)> = blocks.iter().map(|b| (b.first, b.log2)).collect();
        let own = outline(self.parts(parts));
        let Some(first) = blocks.first().filter(|_| held == own) else {
            let (expected, got) = (format!("{own:?}, of this rank's parts"), format!("{held:?}"));
            return Err(Error::Parameter { op, parameter: "blocks", expected, got });
        };
        self.agree(op, || format!("{op} {what} of {parts} parts{}", described("", &first.sum)))?;
        let rows: Vec<_> = blocks.iter().map(|block| split(&block.sum).0).collect();
        let mut summed = match order {
            Order::Fixed => self.combine(op, Combine::Sum, &rows, parts)?.into_iter(),
            Order::Fastest => {
                let mut sums: Vec<Tensor> = rows[0].iter().map(|x| (*x).clone()).collect();
                for row in &rows[1..] {
                    for (sum, x) in sums.iter_mut().zip(row) {
                        *sum = ops::add(sum, x)?;
                    }
                }
                self.combine_fastest(op, Combine::Sum, &sums.iter().collect::<Vec<_>>())?
                    .into_iter()
            }
        };
        let kept = split(&first.sum).1;
        let mut kept = self.send_from(op, &kept, 0)?.into_iter();
        first.sum.map(&Path::ROOT, &mut |path, x| {
            let next = if path.is_buffer() { kept.next() } else { summed.next() };
            Ok(next.unwrap_or_else(|| x.clone()))
        })
    }

    /// The tree of one rank, on every rank.
    pub fn broadcast<T: Tree>(&self, tree: &T, from: usize) -> Result<T> {
        let op = "broadcast";
        self.expect_rank(op, "from", from)?;
        let _claim = self.claim()?;
        self.agree(op, || described(op, tree))?;
        let mut sent = self.send_from(op, &leaves(tree), from)?.into_iter();
        map(tree, |x| Ok(sent.next().unwrap_or_else(|| x.clone())))
    }

    /// The trees of all ranks, by rank, on one of them, and `None` on the others. Their leaves may differ in
    /// shape.
    pub fn gather<T: Tree>(&self, tree: &T, to: usize) -> Result<Option<Vec<T>>> {
        self.expect_rank("gather", "to", to)?;
        let _claim = self.claim()?;
        let found = self.collect("gather", tree, Some(to))?;
        Ok((self.rank() == to).then_some(found))
    }

    /// The trees of all ranks, by rank, on every rank. Their leaves may differ in shape.
    pub fn all_gather<T: Tree>(&self, tree: &T) -> Result<Vec<T>> {
        let _claim = self.claim()?;
        self.collect("all_gather", tree, None)
    }

    /// The numbers of all ranks, by rank, on every rank: as many as each has.
    ///
    /// ```
    /// use extensor::distributed::threads;
    /// let found = threads(2, |group| group.all_gather_numbers(&vec![0.5; group.rank()]))?;
    /// assert_eq!(found, [[vec![], vec![0.5]], [vec![], vec![0.5]]]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn all_gather_numbers(&self, numbers: &[f64]) -> Result<Vec<Vec<f64>>> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let found = self.all_gather_bytes(&bytes)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes);
        Ok(found.iter().map(|bytes| bytes.chunks_exact(8).map(number).collect()).collect())
    }

    /// The bytes of all ranks, by rank, on every rank: as many as each has.
    pub fn all_gather_bytes(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let _claim = self.claim()?;
        self.exchange("all_gather", bytes)
    }

    /// The bytes of one rank, on every rank; what the others give does not count.
    pub fn broadcast_bytes(&self, bytes: &[u8], from: usize) -> Result<Vec<u8>> {
        self.expect_rank("broadcast", "from", from)?;
        let _claim = self.claim()?;
        let mine = if self.rank() == from { bytes } else { &[] };
        Ok(self.exchange("broadcast", mine)?.swap_remove(from))
    }

    /// An error on every rank, which says who differs in what, unless all ranks say the same about each
    /// subject: versions, settings, a digest of the data.
    ///
    /// ```
    /// use extensor::distributed::threads;
    /// let error = threads(2, |group| {
    ///     let batch = format!("batch = {}", 32 + group.rank());
    ///     group.expect_same("the run", &[("the version", "1"), ("the settings", &batch)])
    /// });
    /// let error = error.unwrap_err().to_string();
    /// assert!(error.contains("the run: rank 1 has another value for the settings"), "{error}");
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn expect_same(&self, op: &'static str, facts: &[(&str, &str)]) -> Result<()> {
        let _claim = self.claim()?;
        let mut mine = Vec::new();
        for text in facts.iter().flat_map(|(subject, value)| [subject, value]) {
            mine.extend((text.len() as u64).to_le_bytes());
            mine.extend(text.as_bytes());
        }
        let all: Vec<_> = self.exchange(op, &mine)?.iter().map(|bytes| facts_of(bytes)).collect();
        for (rank, theirs) in all.iter().enumerate() {
            for k in 0..theirs.len().max(all[0].len()) {
                let none = || (String::from("what is compared"), String::from("nothing"));
                let [a, b] =
                    [&all[0], theirs].map(|facts| facts.get(k).cloned().unwrap_or_else(none));
                if a != b {
                    return Err(fallen(op, rank, difference(&a.0, &a.1, &b.1)));
                }
            }
        }
        Ok(())
    }

    fn expect_rank(&self, op: &'static str, parameter: &'static str, rank: usize) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        let (expected, got) = (format!("a rank below {}", self.size()), rank.to_string());
        Err(Error::Parameter { op, parameter, expected, got })
    }

    /// An error on every rank unless all ranks are at the same call, with the same of everything that the
    /// description says.
    fn agree(&self, op: &'static str, describe: impl Fn() -> String) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(describe().as_bytes());
        let digests = self.exchange_fixed(op, &hasher.finish().to_le_bytes(), |_| 8)?;
        if digests.iter().all(|digest| *digest == digests[0]) {
            return Ok(());
        }
        let all = self.exchange(op, describe().as_bytes())?;
        let texts: Vec<_> = all.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        for (rank, text) in texts.iter().enumerate() {
            let (mut ours, mut theirs) = (texts[0].lines(), text.lines());
            loop {
                match (ours.next(), theirs.next()) {
                    (None, None) => break,
                    (a, b) if a == b => {}
                    (a, b) => {
                        let [a, b] = [a, b].map(|line| line.unwrap_or("nothing more").to_string());
                        return Err(fallen(op, rank, format!("has {b} where rank 0 has {a}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// What becomes of the leaves of all blocks; `blocks` are this rank's.
    fn combine(
        &self,
        op: &'static str,
        how: Combine,
        blocks: &[Vec<&Tensor>],
        parts: usize,
    ) -> Result<Vec<Tensor>> {
        let Some(like) = blocks.first() else { return Ok(Vec::new()) };
        let mut found: Vec<Option<Tensor>> = vec![None; like.len()];
        for dtype in dtypes(like) {
            let mut rows = Vec::with_capacity(blocks.len());
            for block in blocks {
                let leaves: Vec<&Tensor> =
                    block.iter().filter(|x| x.dtype() == dtype).copied().collect();
                rows.push(Row::new(dtype, &leaves, op)?);
            }
            let sum = Sum { op, how, parts, dtype, len: rows[0].len(), rows: &rows }.run(self)?;
            let places = (0..like.len()).filter(|&i| like[i].dtype() == dtype);
            let shapes: Vec<Shape> = places.clone().map(|i| like[i].shape().clone()).collect();
            for (i, x) in places.zip(unpack(sum, &shapes, dtype)) {
                found[i] = Some(x);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// What becomes of the leaves of all ranks in the order that the transport chooses, where it knows one for
    /// their dtype.
    fn combine_fastest(
        &self,
        op: &'static str,
        how: Combine,
        leaves: &[&Tensor],
    ) -> Result<Vec<Tensor>> {
        let mut found: Vec<Option<Tensor>> = vec![None; leaves.len()];
        for dtype in dtypes(leaves) {
            let places: Vec<usize> =
                (0..leaves.len()).filter(|&i| leaves[i].dtype() == dtype).collect();
            let own: Vec<&Tensor> = places.iter().map(|&i| leaves[i]).collect();
            let row = Row::new(dtype, &own, op)?;
            let mut sum = piece_of(op, row.len() * dtype.size())?;
            if self.size() == 1 || !self.sum_by_transport(&row.together(op)?, &mut sum, how)? {
                let rows = [row];
                let parts = self.size();
                sum = Sum { op, how, parts, dtype, len: rows[0].len(), rows: &rows }.run(self)?;
            }
            let shapes: Vec<Shape> = own.iter().map(|x| x.shape().clone()).collect();
            for (i, x) in places.into_iter().zip(unpack(sum, &shapes, dtype)) {
                found[i] = Some(x);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// The numbers of a row of all ranks, if the transport can add them.
    fn sum_by_transport(&self, row: &Tensor, sum: &mut Piece, how: Combine) -> Result<bool> {
        let how = match how {
            Combine::Sum => Reduction::Sum,
            Combine::Max => Reduction::Max,
            Combine::Min => Reduction::Min,
        };
        let numbers = match row.dtype() {
            DType::F32 => Numbers::F32(row.row_major(), sum.as_mut_slice()),
            DType::F64 => Numbers::F64(row.row_major(), sum.as_mut_slice()),
            DType::I64 => Numbers::I64(row.row_major(), sum.as_mut_slice()),
            _ => return Ok(false),
        };
        self.transport().all_reduce(numbers, how)
    }

    /// One rank's tensors, on every rank.
    fn send_from(&self, op: &'static str, tensors: &[&Tensor], from: usize) -> Result<Vec<Tensor>> {
        let mut found = Vec::with_capacity(tensors.len());
        for x in tensors {
            let x = x.plain(op)?;
            let bytes = x.len() * x.dtype().size();
            if self.rank() == from {
                let row = Row::new(x.dtype(), &[x], op)?;
                for to in self.others().filter(|_| bytes > 0) {
                    self.transport().send(to, row.message(op, 0..x.len())?)?;
                }
                found.push((*x).clone());
                continue;
            }
            let mut piece = piece_of(op, bytes)?;
            if bytes > 0 {
                self.transport().receive(from, piece)?;
                piece = self.await_from(from)?;
            }
            found.extend(unpack(piece, &[x.shape().clone()], x.dtype()));
        }
        Ok(found)
    }

    /// The trees of all ranks, on one or on all; on the others, this rank's own alone.
    fn collect<T: Tree>(&self, op: &'static str, tree: &T, to: Option<usize>) -> Result<Vec<T>> {
        let mine = leaves(tree);
        self.agree(op, || mine.iter().map(|x| format!("\n{}", x.dtype())).collect())?;
        let sizes = |x: &&Tensor| {
            let sizes = [x.ndim()].into_iter().chain(x.shape().iter().copied());
            sizes.flat_map(|n| (n as u64).to_le_bytes()).collect::<Vec<u8>>()
        };
        let shapes = self.exchange(op, &mine.iter().flat_map(sizes).collect::<Vec<u8>>())?;
        for x in &mine {
            let row = Row::new(x.dtype(), &[x], op)?;
            let wanted = |rank| to.is_none_or(|to| to == rank) && !x.is_empty();
            for to in self.others().filter(|&rank| wanted(rank)) {
                self.transport().send(to, row.message(op, 0..x.len())?)?;
            }
        }
        let mut found = Vec::with_capacity(self.size());
        for (rank, sizes) in shapes.iter().enumerate() {
            if rank == self.rank() {
                found.push(map(tree, |x| Ok(x.clone()))?);
                continue;
            }
            if to.is_some_and(|to| to != self.rank()) {
                continue;
            }
            let mut sizes = sizes.chunks_exact(8).map(count_of);
            found.push(map(tree, |x| {
                let ndim = sizes.next().unwrap_or(0);
                let shape = Shape::from(sizes.by_ref().take(ndim).collect::<Vec<_>>());
                let mut piece = piece_of(op, shape.count(op)? * x.dtype().size())?;
                if !piece.is_empty() {
                    self.transport().receive(rank, piece)?;
                    piece = self.await_from(rank)?;
                }
                Ok(unpack(piece, &[shape], x.dtype()).swap_remove(0))
            })?);
        }
        Ok(found)
    }
}

/// A tree's parameters, and its buffers.
fn split<T: Tree>(tree: &T) -> (Vec<&Tensor>, Vec<&Tensor>) {
    let (mut parameters, mut buffers) = (Vec::new(), Vec::new());
    // Collecting cannot fail.
    let _ = tree.visit(&Path::ROOT, &mut |path, x| {
        if path.is_buffer() {
            buffers.push(x)
        } else {
            parameters.push(x)
        }
        Ok(())
    });
    (parameters, buffers)
}

/// A call and the leaves it is made with, a line each.
fn described<T: Tree>(op: &str, tree: &T) -> String {
    let mut text = op.to_string();
    // Describing cannot fail.
    let _ = tree.visit(&Path::ROOT, &mut |path, x| {
        text.push_str(&format!("\n{} {path} of shape {}", x.dtype(), x.shape()));
        Ok(())
    });
    text
}

/// The pairs of texts that [`Group::expect_same`] wrote down.
fn facts_of(mut bytes: &[u8]) -> Vec<(String, String)> {
    let mut next = || {
        let (length, rest) = bytes.split_at_checked(8)?;
        let (text, rest) = rest.split_at_checked(count_of(length))?;
        bytes = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let mut facts = Vec::new();
    while let (Some(subject), Some(value)) = (next(), next()) {
        facts.push((subject, value));
    }
    facts
}

/// How a rank's value differs from rank 0's: the first line that does.
fn difference(subject: &str, ours: &str, theirs: &str) -> String {
    let (mut a, mut b) = (ours.lines(), theirs.lines());
    loop {
        let lines = (a.next(), b.next());
        if lines.0 != lines.1 || lines == (None, None) {
            let [ours, theirs] = [lines.0, lines.1].map(|line| line.unwrap_or("nothing more"));
            return format!("has another value for {subject}: {theirs}, where rank 0 has {ours}");
        }
    }
}
