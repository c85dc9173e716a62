//! Ranks that are threads: what they find together is what one process finds, to the last bit.

use extensor::autodiff::{leaves, value_and_grad_when_ready, value_and_grad_with_aux};
use extensor::distributed::{Block, Blocks, Group, Reduction, threads};
use extensor::{DType, Error, Key, Result, Tensor, Tree, tensor};
use std::time::{Duration, Instant};

/// A small generator, for shapes and counts.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

type Leaves = Vec<Tensor>;

/// The leaves of part `part`: random numbers in these shapes and dtypes, some of them views.
fn part(part: usize, seed: u64, outline: &[(Vec<usize>, DType)]) -> Result<Leaves> {
    let key = Key::new(seed).fold_in(part as u64);
    let leaf = |(i, (shape, dtype)): (usize, &(Vec<usize>, DType))| {
        let x = key.fold_in(i as u64).normal(shape.clone(), DType::F64)?;
        let x = if dtype.is_float() { x } else { extensor::ops::multiply(&x, &tensor(1e6))? };
        let x = extensor::ops::cast(&x, *dtype)?;
        // Now and then one that does not lie in row-major order.
        match shape.len() {
            2 if i % 2 == 1 => {
                let turned = extensor::ops::transpose(&x, None)?.copied()?;
                extensor::ops::transpose(&turned, None)
            }
            _ => Ok(x),
        }
    };
    outline.iter().enumerate().map(leaf).collect()
}

fn bits(tree: &impl Tree) -> Vec<Vec<u8>> {
    leaves(tree).into_iter().map(|x| x.to_bytes().unwrap()).collect()
}

#[test]
fn any_number_of_ranks_finds_the_bits_of_one_process_for_any_shapes_dtypes_and_parts() -> Result<()>
{
    const DTYPES: [DType; 6] =
        [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I64, DType::I8];
    let mut chance = Chance(7);
    for seed in 0..60 {
        let outline: Vec<(Vec<usize>, DType)> = (0..chance.below(6))
            .map(|_| {
                let shape = (0..chance.below(4)).map(|_| chance.below(9)).collect();
                (shape, DTYPES[chance.below(DTYPES.len())])
            })
            .collect();
        let parts = 1 + chance.below(13);
        let ranks = 1 + chance.below(parts.min(8));
        let mut alone = Blocks::new();
        for i in 0..parts {
            alone.push(i, part(i, seed, &outline)?)?;
        }
        let alone = bits(&alone.total()?.unwrap());
        let found = threads(ranks, |group| {
            let mut blocks = Blocks::new();
            for i in group.parts(parts) {
                blocks.push(i, part(i, seed, &outline)?)?;
            }
            group.reduce_blocks(blocks.into_vec(), parts)
        })?;
        for (rank, sum) in found.iter().enumerate() {
            assert!(bits(sum) == alone, "{parts} parts, rank {rank} of {ranks}, {outline:?}");
        }
    }
    Ok(())
}

#[test]
fn sums_of_many_chunks_have_the_same_bits_too() -> Result<()> {
    // More than the chunks that are under way at once, with a rest that no rank shares evenly.
    let outline =
        [(vec![1_500_001], DType::F32), (vec![], DType::F32), (vec![333, 1001], DType::F32)];
    let parts = 5;
    let mut alone = Blocks::new();
    for i in 0..parts {
        alone.push(i, part(i, 1, &outline)?)?;
    }
    let alone = bits(&alone.total()?.unwrap());
    for ranks in [2, 3, 4] {
        let found = threads(ranks, |group| {
            let mut blocks = Blocks::new();
            for i in group.parts(parts) {
                blocks.push(i, part(i, 1, &outline)?)?;
            }
            group.reduce_blocks(blocks.into_vec(), parts)
        })?;
        assert!(found.iter().all(|sum| bits(sum) == alone), "{ranks} ranks");
    }
    Ok(())
}

#[test]
fn parts_are_added_in_pairs_of_neighbours_and_what_is_left_from_the_largest_block_on() -> Result<()>
{
    // Numbers of which another order makes another sum.
    let x: Vec<f32> = (1..12u32).map(|i| (i * 7919 % 164) as f32 / 7.0).collect();
    let mut blocks = Blocks::new();
    for (i, &x) in x.iter().enumerate() {
        blocks.push(i, tensor(x))?;
    }
    let pair = |i: usize| x[i] + x[i + 1];
    let four = |i: usize| pair(i) + pair(i + 2);
    let expected = ((four(0) + four(4)) + pair(8)) + x[10];
    assert_ne!(expected, x.iter().sum::<f32>());
    assert_ne!(expected, (four(0) + four(4)) + (pair(8) + x[10]));
    assert_eq!(blocks.total()?.unwrap().item::<f32>()?, expected);
    Ok(())
}

#[test]
fn at_most_one_sum_for_each_power_of_two_is_held() -> Result<()> {
    let mut blocks = Blocks::new();
    for i in 0..1000 {
        blocks.push(i, tensor(1.0))?;
        let held = blocks.clone().into_vec();
        assert_eq!(held.len(), (i + 1).count_ones() as usize);
    }
    assert!(blocks.push(1001, tensor(1.0)).is_err());
    assert_eq!(blocks.total()?.unwrap().item::<f64>()?, 1000.0);
    Ok(())
}

#[test]
fn every_rank_has_parts_that_follow_each_other_and_as_many_as_any_other_or_one_more() -> Result<()>
{
    for size in 1..9 {
        for total in [size, size + 1, 3 * size - 1, 64, 1_000_003] {
            let found = threads(size, |group| Ok(group.parts(total)))?;
            assert_eq!((found[0].start, found[size - 1].end), (0, total));
            assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start));
            let lengths = found.iter().map(|range| range.len());
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
        }
    }
    Ok(())
}

#[test]
fn sums_means_extremes_copies_and_lists_are_what_they_are_called() -> Result<()> {
    let found = threads(3, |group| {
        let r = group.rank() as f64;
        let mine = (tensor([r, 1.0]), vec![tensor([group.rank() as i64 * 10])]);
        let sum = group.all_reduce(&mine, Reduction::Sum)?;
        let largest = group.all_reduce(&mine, Reduction::Max)?;
        let smallest = group.all_reduce(&mine, Reduction::Min)?;
        let mean = group.all_reduce(&mine.0, Reduction::Mean)?;
        let copy = group.broadcast(&mine, 2)?;
        let rows = Tensor::full([group.rank(), 2], r, DType::F32)?;
        let all = group.all_gather(&rows)?;
        let one = group.gather(&rows, 1)?;
        group.barrier()?;
        assert_eq!(one.is_some(), group.rank() == 1);
        let one = one.unwrap_or_default();
        assert!(one.is_empty() || bits(&one) == bits(&all));
        Ok((sum, largest, smallest, mean, copy, all))
    })?;
    for (sum, largest, smallest, mean, copy, all) in found {
        let read = |(a, b): &(Tensor, Vec<Tensor>)| {
            (a.to_vec::<f64>().unwrap(), b[0].to_vec::<i64>().unwrap())
        };
        assert_eq!(read(&sum), (vec![3.0, 3.0], vec![30]));
        assert_eq!(read(&largest), (vec![2.0, 1.0], vec![20]));
        assert_eq!(read(&smallest), (vec![0.0, 1.0], vec![0]));
        assert_eq!(mean.to_vec::<f64>()?, [1.0, 1.0]);
        assert_eq!(read(&copy), (vec![2.0, 1.0], vec![20]));
        let shapes: Vec<_> = all.iter().map(|x| x.shape().to_vec()).collect();
        assert_eq!(shapes, [[0, 2], [1, 2], [2, 2]]);
        assert_eq!(all[2].to_vec::<f32>()?, [2.0; 4]);
    }
    Ok(())
}

#[test]
fn what_is_asked_of_a_group_is_checked_in_one_sentence() {
    let says = |run: fn(&Group) -> Result<()>, expected: &str| {
        let error = threads(2, run).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    };
    says(
        |group| {
            let mine = Tensor::zeros([2 + group.rank()], DType::F32)?;
            group.all_reduce(&mine, Reduction::Sum).map(drop)
        },
        "rank 1 has f32 the argument of shape [3] where rank 0 has f32 the argument of shape [2]",
    );
    says(
        |group| match group.rank() {
            0 => group.barrier(),
            _ => group.broadcast(&tensor(1.0), 0).map(drop),
        },
        // Whichever of them looks first.
        "bytes where",
    );
    says(|group| group.broadcast(&tensor(1.0), 2).map(drop), "from is 2, expected a rank below 2");
    says(
        |group| group.all_reduce(&tensor([1i64]), Reduction::Mean).map(drop),
        "a leaf of a mean has dtype i64",
    );
    says(
        |group| group.all_reduce(&tensor([true]), Reduction::Sum).map(drop),
        "a leaf of a sum has dtype bool",
    );
    says(
        |group| {
            let block = Block { first: 0, log2: 0, sum: tensor(1.0) };
            group.reduce_blocks(vec![block], 1).map(drop)
        },
        "parts is 1, expected at least as many as ranks, 2",
    );
    says(
        |group| {
            let block = Block { first: 0, log2: 0, sum: tensor(1.0) };
            group.reduce_blocks(vec![block], 4).map(drop)
        },
        "blocks is [(0, 0)], expected",
    );
}

#[test]
fn a_rank_that_fails_or_panics_ends_all_within_a_second_and_is_named() {
    let started = Instant::now();
    let run = |how: fn() -> Result<()>| {
        threads(4, move |group| {
            if group.rank() == 2 {
                how()?;
            }
            group.all_reduce(&tensor(1.0), Reduction::Sum)
        })
    };
    let failed = run(|| Err(Error::Interrupted)).unwrap_err();
    assert!(matches!(&failed, Error::Rank { rank: 2, .. }), "{failed:?}");
    assert!(failed.to_string().contains("rank 2 failed: interrupted"), "{failed}");
    let panicked = run(|| panic!("no such thing")).unwrap_err().to_string();
    assert!(panicked.contains("rank 2 failed") && panicked.contains("no such thing"), "{panicked}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn ranks_that_differ_are_told_who_differs_in_what() {
    let run = |rank_2: &'static str| {
        threads(3, move |group| {
            let settings = if group.rank() == 2 { rank_2 } else { "batch = 32\nlr = 0.1" };
            group.expect_same("train", &[("the version", "1.0"), ("the settings", settings)])
        })
    };
    assert!(run("batch = 32\nlr = 0.1").is_ok());
    let error = run("batch = 32\nlr = 0.2").unwrap_err().to_string();
    let expected =
        "train: rank 2 has another value for the settings: lr = 0.2, where rank 0 has lr = 0.1";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_rank_that_returns_while_others_wait_for_it_ends_them_and_is_named() {
    let started = Instant::now();
    let left = threads(3, |group| if group.rank() == 1 { Ok(()) } else { group.barrier() });
    let text = left.unwrap_err().to_string();
    assert!(text.contains("rank 1 has ended, and sends nothing more"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

/// The loss of a network whose first layer is used twice.
fn loss(model: &[Tensor], x: &Tensor) -> Result<(Tensor, ())> {
    let y = x.linear(&model[0], &model[1])?.tanh()?;
    let y = y.linear(&model[2], &model[3])?.tanh()?;
    let y = y.linear(&model[0], &model[1])?;
    Ok((extensor::ops::mean(&(&y * &y), ..)?, ()))
}

fn network() -> Result<Vec<Tensor>> {
    let shapes: [&[usize]; 5] = [&[8, 8], &[8], &[8, 8], &[8], &[3]];
    let keys = (0..).map(|i| Key::new(5).fold_in(i));
    shapes.iter().zip(keys).map(|(&shape, key)| key.normal(shape.to_vec(), DType::F32)).collect()
}

#[test]
fn each_leaf_is_told_of_once_when_nothing_more_is_added_to_its_gradient() -> Result<()> {
    let model = network()?;
    let x = Key::new(6).normal([4, 8], DType::F32)?;
    let mut told = Vec::new();
    let ready = &mut |leaf: usize, grad: &Tensor| {
        told.push((leaf, grad.to_bytes()?));
        Ok(())
    };
    let found = value_and_grad_when_ready(|model| loss(model, &x), &model, ready)?;
    let (value, grads, ()) = value_and_grad_with_aux(|model| loss(model, &x), &model)?;
    assert_eq!((found.0.to_bytes()?, bits(&found.1)), (value.to_bytes()?, bits(&grads)));
    // The layer in the middle is complete before the one that is used before it and after it; what the loss
    // does not depend on comes last.
    let mut order: Vec<usize> = told.iter().map(|(leaf, _)| *leaf).collect();
    assert_eq!(order.pop(), Some(4));
    let (mut middle, mut outer) = (order[..2].to_vec(), order[2..].to_vec());
    middle.sort();
    outer.sort();
    assert_eq!((middle, outer), (vec![2, 3], vec![0, 1]));
    for (leaf, grad) in told {
        assert!(grad == grads[leaf].to_bytes()?, "leaf {leaf} was told of before it was complete");
    }
    Ok(())
}

#[test]
fn gradients_that_travel_during_the_backward_pass_have_the_bits_of_one_process() -> Result<()> {
    let (model, parts) = (network()?, 6);
    let x = |part: usize| Key::new(6).fold_in(part as u64).normal([4, 8], DType::F32);
    let mut alone = Blocks::new();
    for part in 0..parts {
        let x = x(part)?;
        alone.push(part, value_and_grad_with_aux(|model| loss(model, &x), &model)?.1)?;
    }
    let alone = bits(&alone.total()?.unwrap());
    let found = threads(4, |group| {
        let own = group.parts(parts);
        let mut leaves: Vec<Blocks<Tensor>> = model.iter().map(|_| Blocks::new()).collect();
        let mut reducer = group.reducer(parts)?;
        for part in own.clone() {
            let x = x(part)?;
            let ready = &mut |leaf: usize, grad: &Tensor| {
                leaves[leaf].push(part, grad.clone())?;
                if part + 1 < own.end {
                    return Ok(());
                }
                reducer.push(leaf, std::mem::take(&mut leaves[leaf]).into_vec())
            };
            value_and_grad_when_ready(|model| loss(model, &x), &model, ready)?;
        }
        assert!(group.barrier().unwrap_err().to_string().contains("has a reducer at work"));
        let sums = reducer.finish()?;
        group.barrier()?;
        Ok(sums.into_iter().map(|(_, sum)| sum).collect::<Vec<_>>())
    })?;
    assert!(found.iter().all(|sum| bits(sum) == alone));
    Ok(())
}

#[test]
fn a_reducer_that_is_dropped_before_it_is_finished_leaves_a_group_that_says_so() -> Result<()> {
    threads(1, |group| {
        drop(group.reducer(1)?);
        group.barrier()
    })?;
    let found = threads(2, |group| {
        drop(group.reducer(2)?);
        group.barrier()
    });
    let text = found.unwrap_err().to_string();
    assert!(text.contains("dropped a reducer before it was finished"), "{text}");
    Ok(())
}
