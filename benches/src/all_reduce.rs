//! What a sum over ranks costs: in the fixed order, and in the one that MPI chooses.

use extensor::distributed::{Blocks, Group, Order, Reduction};
use extensor::{DType, Error, Key, Result, Tensor};
use std::time::Instant;

/// Bytes that each rank has.
const SIZES: [usize; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 100_000_000];

/// How long a call takes the rank that takes longest, in milliseconds.
pub fn timed(group: &Group, run: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    group.barrier()?;
    let started = Instant::now();
    run()?;
    let mine = started.elapsed().as_secs_f64() * 1e3;
    let all = group.all_gather_numbers(&[mine])?;
    Ok(all.iter().map(|times| times[0]).fold(0.0, f64::max))
}

/// The least and the median.
pub fn summary(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

/// An error unless both orders find the same but for rounding: what is timed is to be right.
fn expect_alike(group: &Group, x: &Tensor) -> Result<()> {
    let [fixed, own] =
        [Order::Fixed, Order::Fastest].map(|order| group.all_reduce_in(x, Reduction::Sum, order));
    let (fixed, own) = (fixed?, own?);
    let pairs = fixed.iter::<f32>()?.zip(own.iter::<f32>()?);
    let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // Sums of a few numbers of about 1.
    if far < 1e-5 {
        return Ok(());
    }
    let reason = format!("the two orders differ by {far}");
    Err(Error::Check { op: "all_reduce".into(), reason })
}

/// Prints, on rank 0, what sums of `f32` over the ranks of an mpirun take, interleaved.
pub fn compare(turns: usize) -> Result<()> {
    let group = Group::mpi()?;
    // Ranks share the machine's processors.
    extensor::threads::set(1);
    if group.is_first() {
        println!("all_reduce of f32, {} ranks: ms, least and median of {turns}", group.size());
        println!(
            "{:>12} {:>18} {:>18} {:>7} {:>24}",
            "bytes", "fixed order", "MPI's own", "ratio", "3 parts to 2 ranks"
        );
    }
    for bytes in SIZES {
        let x = Key::new(group.rank() as u64).normal([bytes / 4], DType::F32)?;
        let in_order = |order| group.all_reduce_in(&x, Reduction::Sum, order).map(drop);
        // Parts that are no single block on every rank cost more messages.
        let parts = 3 * group.size() / 2;
        let uneven = || {
            let mut blocks: Blocks<Tensor> = Blocks::new();
            group.parts(parts).try_for_each(|part| blocks.push(part, x.clone()))?;
            group.reduce_blocks(blocks.into_vec(), parts).map(drop)
        };
        expect_alike(&group, &x)?;
        let (mut fixed, mut own, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..=turns {
            let times = [
                timed(&group, &mut || in_order(Order::Fixed))?,
                timed(&group, &mut || in_order(Order::Fastest))?,
                timed(&group, &mut { uneven })?,
            ];
            // The first turn warms memory up.
            if turn > 0 {
                fixed.push(times[0]);
                own.push(times[1]);
                odd.push(times[2]);
            }
        }
        let [fixed, own, odd] = [fixed, own, odd].map(summary);
        if group.is_first() {
            println!(
                "{bytes:>12} {:>9.3} {:>8.3} {:>9.3} {:>8.3} {:>7.2} {:>15.3} {:>8.3}",
                fixed.0,
                fixed.1,
                own.0,
                own.1,
                fixed.1 / own.1,
                odd.0,
                odd.1
            );
        }
    }
    Ok(())
}
