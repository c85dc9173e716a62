//! Ranks that mpirun started: what they find has the bits of one process, and whatever becomes of one of them
//! all end within seconds, and one says which it was.
//!
//! Without a test harness: this program starts itself by mpirun, once for each case.

use extensor::autodiff::leaves;
use extensor::distributed::{Blocks, Group, Order, Reduction, launched};
use extensor::{DType, Error, Key, Result, Tensor, tensor};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A case: its name, how many ranks it has, what each does, and what is expected of the run.
struct Case {
    name: &'static str,
    ranks: usize,
    rank: fn(&Group) -> Result<()>,
    expect: fn(&Ended),
}

/// How a run ended.
struct Ended {
    good: bool,
    text: String,
    after: Duration,
}

impl Ended {
    fn expect_good(&self) {
        assert!(self.good, "{}", self.text);
    }

    /// That all ended soon after a rank did, and the sentence is said once.
    fn expect_said(&self, sentence: &str) {
        assert!(!self.good, "ended well: {}", self.text);
        assert!(self.after < Duration::from_secs(10), "{:?}: {}", self.after, self.text);
        let said = self.text.matches("SAID").count();
        let expected = self.text.matches(&format!("SAID {sentence}")).count();
        assert!((said, expected) == (1, 1), "not once {sentence:?}: {}", self.text);
    }
}

const CASES: &[Case] = &[
    Case {
        name: "any number of ranks finds the bits of one process",
        ranks: 2,
        rank: same_bits,
        expect: Ended::expect_good,
    },
    Case {
        name: "so do more ranks than processors",
        ranks: 4,
        rank: same_bits,
        expect: Ended::expect_good,
    },
    Case {
        name: "three ranks, which are no power of two, too",
        ranks: 3,
        rank: same_bits,
        expect: Ended::expect_good,
    },
    Case {
        name: "every call does what it is called, and MPI's own order finds the same sum but for rounding",
        ranks: 4,
        rank: calls,
        expect: Ended::expect_good,
    },
    Case {
        name: "a rank that fails is named, once",
        ranks: 4,
        rank: |group| busy(group, 2, || Err(Error::Interrupted)),
        expect: |ended| ended.expect_said("interrupted"),
    },
    Case {
        name: "if all ranks fail alike, one says so",
        ranks: 4,
        rank: |group| {
            group.barrier()?;
            Err(Error::Diverged { step: 7, what: "the loss is NaN".into(), reason: "log".into() })
        },
        expect: |ended| ended.expect_said("step 7: the loss is NaN: log"),
    },
    Case {
        name: "a rank that panics is named",
        ranks: 2,
        rank: |group| busy(group, 1, || panic!("no such thing")),
        expect: |ended| ended.expect_said("the program panicked: no such thing"),
    },
    Case {
        name: "a rank that is killed is missed",
        ranks: 4,
        rank: |group| busy(group, 3, || signal("KILL")),
        expect: |ended| {
            assert!(!ended.good && ended.after < Duration::from_secs(10), "{:?}", ended.after);
            // Whoever is quicker, mpirun or those who watch, names the rank.
            let named = ["rank 3 has ended without a word", "process rank 3 with PID"];
            assert!(named.iter().any(|name| ended.text.contains(name)), "{}", ended.text);
        },
    },
    Case {
        name: "a rank that is stopped is missed by all",
        ranks: 4,
        rank: |group| busy(group, 1, || signal("STOP")),
        expect: |ended| ended.expect_said("group: rank 1 has not answered for 5 seconds"),
    },
    Case {
        name: "if rank 0 is stopped, another speaks",
        ranks: 3,
        rank: |group| busy(group, 0, || signal("STOP")),
        expect: |ended| ended.expect_said("group: rank 0 has not answered for 5 seconds"),
    },
    Case {
        name: "ranks that wait inside MPI for one that is stopped are ended",
        ranks: 2,
        rank: |group| {
            if group.rank() == 1 {
                signal("STOP")?;
            }
            group.all_reduce_in(&tensor([1.0f32; 1000]), Reduction::Sum, Order::Fastest).map(drop)
        },
        expect: |ended| {
            assert!(!ended.good && ended.after < Duration::from_secs(10), "{:?}", ended.after);
            assert!(ended.text.contains("rank 1 has not answered for 5 seconds"), "{}", ended.text);
        },
    },
    Case {
        name: "ranks that differ say who differs in what, at the start",
        ranks: 3,
        rank: |group| {
            let batch = if group.rank() == 2 { "batch = 64" } else { "batch = 32" };
            group.expect_same("train", &[("the settings", batch)])
        },
        expect: |ended| {
            let sentence = "train: rank 2 has another value for the settings: batch = 64, where rank 0 has batch = 32";
            ended.expect_said(sentence);
        },
    },
    Case {
        name: "a rank that leaves while others wait for it is named",
        ranks: 2,
        rank: |group| match group.rank() {
            0 => group.barrier(),
            _ => Ok(()),
        },
        expect: |ended| ended.expect_said("group: rank 1 has ended, and sends nothing more"),
    },
];

/// Sends this process a signal.
fn signal(name: &str) -> Result<()> {
    let own = std::process::id().to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &own]).status();
    assert!(sent.unwrap().success());
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

/// Steps that never end, until something befalls a rank in one of them.
fn busy(group: &Group, rank: usize, fate: fn() -> Result<()>) -> Result<()> {
    assert!(group.is_watched());
    let x = Tensor::ones([100_000], DType::F32)?;
    for step in 0.. {
        if (step, group.rank()) == (20, rank) {
            fate()?;
        }
        group.all_reduce(&x, Reduction::Sum)?;
    }
    Ok(())
}

/// The leaves of a part: numbers whose sum is another one in another order.
fn part(part: usize) -> Result<Vec<Tensor>> {
    let key = Key::new(3).fold_in(part as u64);
    let leaf = |(i, (shape, dtype)): (usize, (Vec<usize>, DType))| {
        if i == 0 {
            let count: usize = shape.iter().product();
            let x = (0..count).map(|k| ((k * 7919 + part * 104_729) % 1_000_003) as f32 * 0.1);
            return Tensor::from_vec(x.collect(), shape);
        }
        let x = key.fold_in(i as u64).normal(shape, DType::F64)?;
        extensor::ops::cast(&extensor::ops::multiply(&x, &tensor(100.0))?, dtype)
    };
    let outline = [
        // Many chunks for each rank, more than are under way at once.
        (vec![1_400_001], DType::F32),
        (vec![3, 5], DType::BF16),
        (vec![], DType::F64),
        (vec![400, 7], DType::F16),
        (vec![0, 2], DType::F32),
        (vec![11], DType::I64),
        (vec![100, 30], DType::F32),
    ];
    outline.into_iter().enumerate().map(leaf).collect()
}

fn bits(tree: &[Tensor]) -> Vec<Vec<u8>> {
    tree.iter().map(|x| x.to_bytes().unwrap()).collect()
}

fn same_bits(group: &Group) -> Result<()> {
    for parts in [group.size(), group.size() + 1, 8] {
        let mut alone = Blocks::new();
        for i in 0..parts {
            alone.push(i, part(i)?)?;
        }
        let alone = bits(&alone.total()?.unwrap());
        let mut blocks = Blocks::new();
        for i in group.parts(parts) {
            blocks.push(i, part(i)?)?;
        }
        let blocks = blocks.into_vec();
        let together = group.reduce_blocks(blocks.clone(), parts)?;
        assert!(bits(&together) == alone, "{parts} parts on {} ranks", group.size());
        // Leaf by leaf, on another thread, while this one is busy.
        let mut reducer = group.reducer(parts)?;
        for leaf in (0..together.len()).rev() {
            let blocks = blocks.iter().map(|block| extensor::distributed::Block {
                first: block.first,
                log2: block.log2,
                sum: block.sum[leaf].clone(),
            });
            reducer.push(leaf, blocks.collect())?;
        }
        let by_leaf: Vec<Tensor> = reducer.finish()?.into_iter().map(|(_, sum)| sum).collect();
        assert!(bits(&by_leaf) == alone, "leaf by leaf, {parts} parts on {} ranks", group.size());
    }
    Ok(())
}

fn calls(group: &Group) -> Result<()> {
    let launched = launched().unwrap();
    assert_eq!((launched.rank, launched.size), (group.rank(), group.size()));
    assert_eq!(format!("{:?}", Group::mpi()?), format!("Group(rank {} of 4)", group.rank()));
    let r = group.rank() as i64;
    assert_eq!(group.all_reduce(&tensor([r, 1]), Reduction::Sum)?.to_vec::<i64>()?, [6, 4]);
    assert_eq!(group.all_reduce(&tensor([r, 1]), Reduction::Max)?.to_vec::<i64>()?, [3, 1]);
    assert_eq!(group.broadcast(&tensor([r]), 3)?.to_vec::<i64>()?, [3]);
    let rows = group.all_gather(&Tensor::full([group.rank(), 2], r as f64, DType::F32)?)?;
    assert_eq!(rows[3].to_vec::<f32>()?, [3.0; 6]);
    assert_eq!(group.gather(&tensor(r), 1)?.is_some(), r == 1);
    assert_eq!(group.broadcast_bytes(format!("from {r}").as_bytes(), 2)?, b"from 2");
    assert_eq!(group.all_gather_numbers(&[r as f64])?, [[0.0], [1.0], [2.0], [3.0]]);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I64] {
        let x = Key::new(r as u64).normal([10_000], DType::F64)?;
        let x = extensor::ops::cast(&extensor::ops::multiply(&x, &tensor(50.0))?, dtype)?;
        let tree = vec![x.clone(), x];
        let [fixed, own] = [Order::Fixed, Order::Fastest]
            .map(|order| group.all_reduce_in(&tree, Reduction::Sum, order));
        for (a, b) in leaves(&fixed?).into_iter().zip(leaves(&own?)) {
            let pairs = a.to_f64_vec().into_iter().zip(b.to_f64_vec());
            let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far <= 1e-4, "{dtype}: {far}");
        }
    }
    Ok(())
}

/// One rank of a case.
fn run(case: &Case) {
    let group = Group::mpi().unwrap();
    assert_eq!(group.size(), case.ranks);
    extensor::threads::set(1);
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (case.rank)(&group)));
    let done = done.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let message = message.unwrap_or_default();
        Err(Error::Panic { op: "run", what: "the program", message })
    });
    if let Err(error) = done {
        if group.fail(&error) {
            println!("SAID {}", error.to_string().trim_start_matches("run: "));
        }
        std::process::exit(1);
    }
}

/// Starts a case by mpirun.
fn start(case: &Case) -> Ended {
    let started = Instant::now();
    let mut command = Command::new("mpirun");
    // Ranks of the tests share processors: they let each other go on.
    command.args(["--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1"]);
    command.args(["-n", &case.ranks.to_string()]).arg(std::env::current_exe().unwrap());
    let output = command.args(["--rank", case.name]).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Ended {
        good: output.status.success(),
        text: String::from_utf8_lossy(&text).into_owned(),
        after: started.elapsed(),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--rank"
    {
        return run(CASES.iter().find(|case| case.name == name).unwrap());
    }
    // As a test harness does: the words are parts of names.
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    for case in CASES {
        if !words.is_empty() && !words.iter().any(|word| case.name.contains(word.as_str())) {
            continue;
        }
        let ended = start(case);
        (case.expect)(&ended);
        println!("{} ({} ranks, {:.1} s): ok", case.name, case.ranks, ended.after.as_secs_f64());
    }
}
