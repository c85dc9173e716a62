//! How bytes of pictures become numbers: a value for each byte, moved and mirrored at random if asked.
//!
//! This module must not know where the bytes are kept.

use super::Augment;
use crate::tensor::with_room;
use crate::{DType, Error, Key, Result, Shape, Tensor};

const OP: &str = "Images";

/// What is done to every picture of a data set.
#[derive(Clone)]
pub(super) struct Pixels {
    /// Channels, height and width.
    size: [usize; 3],
    /// What each byte becomes, channel by channel.
    values: Vec<[f32; 256]>,
    pub augment: Augment,
}

impl Pixels {
    /// `x/255`, of pictures of so many channels, rows and columns.
    pub fn new(size: [usize; 3]) -> Result<Pixels> {
        let mut values = with_room(OP, size[0])?;
        values.resize(size[0], table(0.0, 1.0));
        Ok(Pixels { size, values, augment: Augment::default() })
    }

    /// `(x/255 − mean)/std`, one mean and std for each channel or one for all.
    pub fn normalize(&mut self, mean: &[f64], std: &[f64]) -> Result<()> {
        let channels = self.values.len();
        for (parameter, given) in [("mean", mean), ("std", std)] {
            let fits = given.len() == 1 || given.len() == channels;
            let fine = given.iter().all(|v| v.is_finite() && (parameter == "mean" || *v > 0.0));
            if !fits || !fine {
                let expected = format!("1 or {channels} finite numbers, and a std above 0");
                let got = format!("{given:?}");
                return Err(Error::Parameter { op: OP, parameter, expected, got });
            }
        }
        let of = |given: &[f64], c: usize| given[c % given.len()];
        self.values = (0..channels).map(|c| table(of(mean, c), of(std, c))).collect();
        Ok(())
    }

    /// Channels, height and width.
    pub fn size(&self) -> [usize; 3] {
        self.size
    }

    /// The bytes of one picture.
    pub fn image(&self) -> usize {
        self.size.iter().product()
    }

    /// The bytes of one channel of one picture.
    fn plane(&self) -> usize {
        self.size[1] * self.size[2]
    }

    /// Pictures of these numbers, of which `bytes` gives the first, the second, and so on.
    pub fn batch<'a>(
        &self,
        indices: &[usize],
        key: Key,
        bytes: impl Fn(usize) -> &'a [u8],
    ) -> Result<Tensor> {
        let [channels, height, width] = self.size;
        let changes = indices.iter().map(|&i| self.draw(i, key)).collect::<Result<Vec<_>>>()?;
        let shape = Shape::from([indices.len(), channels, height, width]);
        let plane = self.plane().max(1);
        Tensor::build(OP, shape, DType::F32, |out: &mut [f32]| {
            let outputs = out.chunks_exact_mut(self.image().max(1)).zip(&changes);
            for (i, (out, &change)) in outputs.enumerate() {
                let planes = bytes(i).chunks_exact(plane);
                for ((out, part), values) in
                    out.chunks_exact_mut(plane).zip(planes).zip(&self.values)
                {
                    if change == (0, 0, false) {
                        out.iter_mut().zip(part).for_each(|(o, &b)| *o = values[usize::from(b)]);
                    } else {
                        changed(out, part, values, [height, width], change);
                    }
                }
            }
        })
    }

    /// How image `index` is changed: moved down, moved right, mirrored.
    fn draw(&self, index: usize, key: Key) -> Result<(isize, isize, bool)> {
        let Augment { shift, flip } = self.augment;
        if shift == 0 && !flip {
            return Ok((0, 0, false));
        }
        // One word each; a shift beyond the image moves all of it out.
        let [_, height, width] = self.size;
        let words = key.fold_in(index as u64).integers([3], i64::MAX as u64)?.to_vec::<i64>()?;
        let below = |word: i64, high: usize| ((word as u128 * high as u128) >> 63) as isize;
        let moved = |word, size: usize| {
            let shift = shift.min(size);
            below(word, 2 * shift + 1) - shift as isize
        };
        Ok((moved(words[0], height), moved(words[1], width), flip && below(words[2], 2) == 1))
    }
}

/// What each byte becomes.
fn table(mean: f64, std: f64) -> [f32; 256] {
    std::array::from_fn(|byte| ((byte as f64 / 255.0 - mean) / std) as f32)
}

/// One channel, mirrored or not, then moved; zero bytes come in.
fn changed(
    out: &mut [f32],
    plane: &[u8],
    values: &[f32; 256],
    [height, width]: [usize; 2],
    (down, right, mirrored): (isize, isize, bool),
) {
    let inside = |at: usize, by: isize, size: usize| {
        usize::try_from(at as isize - by).ok().filter(|&from| from < size)
    };
    for (y, row) in out.chunks_exact_mut(width).enumerate() {
        let from = inside(y, down, height).map(|y| &plane[y * width..(y + 1) * width]);
        for (x, out) in row.iter_mut().enumerate() {
            let byte = match (from, inside(x, right, width)) {
                (Some(row), Some(x)) => row[if mirrored { width - 1 - x } else { x }],
                _ => 0,
            };
            *out = values[usize::from(byte)];
        }
    }
}

/// The mean and the standard deviation of `x/255` of each channel, from pictures added one after another.
pub(super) struct Statistics {
    /// For each channel the sum of its bytes, and that of their squares: exact, so that their order does
    /// not matter.
    sums: Vec<(u64, u64)>,
    plane: usize,
    pictures: u64,
}

impl Statistics {
    /// Of nothing yet.
    pub fn of(pixels: &Pixels) -> Statistics {
        let (channels, plane) = (pixels.size[0], pixels.plane());
        Statistics { sums: vec![(0, 0); channels], plane, pictures: 0 }
    }

    /// With these pictures too, one after the other.
    pub fn add(&mut self, pictures: u64, bytes: &[u8]) {
        let channels = self.sums.len();
        for (i, part) in bytes.chunks_exact(self.plane.max(1)).enumerate() {
            let sum = &mut self.sums[i % channels];
            for &byte in part {
                sum.0 += u64::from(byte);
                sum.1 += u64::from(byte).pow(2);
            }
        }
        self.pictures += pictures;
    }

    /// Mean and standard deviation, channel by channel.
    pub fn finish(self) -> Vec<(f64, f64)> {
        let count = (self.pictures as usize * self.plane).max(1) as f64;
        let of = |(sum, squares): (u64, u64)| {
            let mean = sum as f64 / count;
            (mean / 255.0, (squares as f64 / count - mean * mean).max(0.0).sqrt() / 255.0)
        };
        self.sums.into_iter().map(of).collect()
    }
}
