//! Numbers multiplied by a constant where a mask says so, and 0 elsewhere; and random masks.

use crate::isa::{Kernel, dispatch, dispatch_narrow};
use crate::native::{Compute, Native};
use crate::number::{Number, Real};
use crate::par::parallel_chunks;
use crate::random::philox;
use crate::view::View;
use crate::walk::{Reader, Room, Walk};

/// Elements that one thread takes at a time.
const CHUNK: usize = 64 * 1024;
/// Elements that are packed or widened at a time.
const BLOCK: usize = 1024;

struct Scaled<'a, W> {
    x: &'a [W],
    mask: &'a [u8],
    scale: W,
    out: &'a mut [W],
}

impl<W: Real + Native> Kernel for Scaled<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Scaled { x, mask, scale, out } = self;
        let len = out.len();
        let (x, mask) = (&x[..len], &mask[..len]);
        let mut i = 0;
        while i < len {
            let product = x[i] * scale;
            out[i] = if mask[i] != 0 { product } else { W::ZERO };
            i += 1;
        }
    }
}

/// `out[i] = if mask[i] { x[i]·scale } else { 0 }`, whatever `x[i]` is there.
///
/// # Panics
/// If an input has not as many elements as `out`.
pub fn scale_where<T>(mask: View<'_, u8>, x: View<'_, T>, scale: f64, out: &mut [T])
where
    T: Compute<Wide: Real>,
{
    assert!(
        [mask.len(), x.len()] == [out.len(); 2],
        "scale_where: an input's length differs from the output's"
    );
    let scale = T::Wide::ZERO.lit(scale);
    let walk = Walk::new(out.len(), BLOCK, &[mask.layout(), x.layout()]);
    let (mask, x) = (Reader::new(&mask, 0), Reader::new(&x, 1));
    walk.run(out, &|pieces| {
        let (mut bits, mut raw) = (Room::new(), Room::new());
        let mut wide = [T::Wide::ZERO; BLOCK];
        let mut result = [T::Wide::ZERO; BLOCK];
        while let Some((piece, out)) = pieces.next() {
            let len = piece.len;
            let mask = mask.read(&walk, &piece, &mut bits);
            let x = x.read(&walk, &piece, &mut raw);
            let x = T::as_wide(x).unwrap_or_else(|| {
                T::widen(x, &mut wide[..len]);
                &wide[..len]
            });
            match T::as_wide_mut(out) {
                Some(out) => dispatch(Scaled { x, mask, scale, out }),
                None => {
                    dispatch(Scaled { x, mask, scale, out: &mut result[..len] });
                    T::narrow(&result[..len], out);
                }
            }
        }
    });
}

/// Blocks of random words that are drawn side by side.
const LANES: usize = 16;

struct Mask<'a> {
    key: u64,
    /// The number of the first block.
    first: u64,
    /// Below this a number is dropped.
    limit: u32,
    out: &'a mut [u8],
}

impl Kernel for Mask<'_> {
    type Output = ();
    // The rounds of `philox`, for many counters in step.
    #[inline(always)]
    fn run(self) {
        let Mask { key, first, limit, out } = self;
        let groups = out.len() / (4 * LANES);
        let mut group = 0;
        while group < groups {
            let at = first + (group * LANES) as u64;
            let mut c = [[0u32; LANES]; 4];
            let mut i = 0;
            while i < LANES {
                c[0][i] = (at + i as u64) as u32;
                c[1][i] = ((at + i as u64) >> 32) as u32;
                i += 1;
            }
            let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
            let mut round = 0;
            while round < 10 {
                let mut i = 0;
                while i < LANES {
                    let a = c[0][i] as u64 * 0xD251_1F53;
                    let b = c[2][i] as u64 * 0xCD9E_8D57;
                    c[0][i] = (b >> 32) as u32 ^ c[1][i] ^ k0;
                    c[1][i] = b as u32;
                    c[2][i] = (a >> 32) as u32 ^ c[3][i] ^ k1;
                    c[3][i] = a as u32;
                    i += 1;
                }
                k0 = k0.wrapping_add(0x9E37_79B9);
                k1 = k1.wrapping_add(0xBB67_AE85);
                round += 1;
            }
            let bits = &mut out[group * 4 * LANES..(group + 1) * 4 * LANES];
            let mut i = 0;
            while i < LANES {
                let mut word = 0;
                while word < 4 {
                    bits[4 * i + word] = u8::from(c[word][i] >= limit);
                    word += 1;
                }
                i += 1;
            }
            group += 1;
        }
        let done = groups * 4 * LANES;
        for (k, bits) in out[done..].chunks_mut(4).enumerate() {
            let words = philox(key, (first + (done / 4 + k) as u64).into());
            for (bit, word) in bits.iter_mut().zip(words) {
                *bit = u8::from(word >= limit);
            }
        }
    }
}

/// Fills `out` with ones, but for a share `p` (below 1, to within 2⁻³²) of zeros at random.
///
/// Element number `i` depends on `key` and `i` alone: on word `i % 4` of block `i / 4` of the
/// stream.
pub fn random_mask(key: u64, p: f64, out: &mut [u8]) {
    let words = (1u64 << 32) as f64;
    // Rounded to a word; a share that is not all of them never drops all.
    let limit = (p * words).round().clamp(0.0, words - 1.0) as u32;
    parallel_chunks(out, CHUNK, &|start, out| {
        dispatch_narrow(Mask { key, first: (start / 4) as u64, limit, out });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par::with_threads;

    #[test]
    fn an_element_of_a_mask_depends_on_the_key_and_its_number_alone() {
        let key = 0x0123_4567_89ab_cdef;
        let mut long = vec![7; 200_003];
        random_mask(key, 0.3, &mut long);
        for (i, &bit) in long.iter().enumerate().step_by(37) {
            let word = philox(key, (i / 4) as u128)[i % 4];
            assert_eq!(bit, u8::from(f64::from(word) >= 0.3 * 4294967296.0), "{i}");
        }
        for threads in [1, 3] {
            for len in [0, 1, 63, 64, 65, 1000, 70_001] {
                let mut mask = vec![7; len];
                with_threads(threads, || random_mask(key, 0.3, &mut mask));
                assert_eq!(mask, long[..len], "{len}");
            }
        }
    }

    #[test]
    fn the_share_of_zeros_is_what_was_asked_for() {
        let len = 1 << 20;
        let mut mask = vec![0; len];
        for (key, p) in [(1, 0.0), (2, 0.1), (3, 0.5), (4, 0.9), (5, 0.999), (6, 1e-4)] {
            random_mask(key, p, &mut mask);
            let dropped = mask.iter().filter(|&&bit| bit == 0).count() as f64;
            let deviation = (len as f64 * p * (1.0 - p)).sqrt();
            assert!((dropped - len as f64 * p).abs() <= 4.5 * deviation, "{p}: {dropped}");
            // Neighbours are independent: as many pairs of zeros as there should be.
            let pairs = mask.windows(2).filter(|pair| pair == &[0, 0]).count() as f64;
            let share = p * p;
            let deviation = (len as f64 * share * (1.0 - share + 2.0 * p)).sqrt();
            assert!((pairs - len as f64 * share).abs() <= 4.5 * deviation + 1.0, "{p}: {pairs}");
        }
    }
}
