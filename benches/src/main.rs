//! Times ExTensor beside PyTorch, `torch.compile` and JAX's `jit`, in one run, interleaved: a figure without
//! its peer beside it in the same run says nothing.
//!
//! ```text
//! cargo run --release -p extensor-bench -- [--threads 1,2] [--only WORD[,WORD]] [--python PATH]
//!     [--peers torch,compile,jax] [--turns N] [--large]
//! cargo run --release -p extensor-bench -- --memory [--threads 1,2]
//! cargo run --release -p extensor-bench -- --profile [--threads 1,2] [--only WORD[,WORD]] [--large]
//! cargo build --release -p extensor-bench --features mpi
//! mpirun -n 2 target/release/extensor-bench --all-reduce [--turns N]
//! mpirun -n 4 target/release/extensor-bench --weak-scaling [--threads 4] [--turns N]
//! ```
//!
//! Each workload is timed in turns, a few repetitions of ours, of ours compiled where users would compile
//! it, and of each peer's, each after 30 ms of the same that are not timed, with the same number of
//! threads; the median and the minimum are shown, and their ratios (above 1: ExTensor is faster). A
//! peer's ratio is to our compiled work where there is some, and that of the compiled work is to our
//! eager one. Of the peers those are there that the Python has; `torch.compile` and JAX have what users
//! compile.
//!
//! `--profile` prints, for each compiled training step, which of its kernels take how long.
//!
//! `--all-reduce` times sums over ranks in the fixed order beside MPI's own, and `--weak-scaling` a training
//! step of one rank beside one of all, each rank with a batch of its own.
//!
//! Equal threads: PyTorch is told the number, and `torch.compile` takes it from there. JAX cannot be told;
//! its process is bound to as many processors before it starts, from which XLA takes its threads,
//! and for one thread XLA's own are switched off too.

#[cfg(feature = "mpi")]
mod all_reduce;
mod memory;
mod networks;
mod peer;
mod training;
#[cfg(feature = "mpi")]
mod weak_scaling;
mod work;

use peer::{KINDS, Kind, Peer};
use std::time::{Duration, Instant};

/// Repetitions in one turn.
const TURN: usize = 3;

/// Runs of a profile, of which the least time of each kernel counts.
const PROFILED: usize = 50;

/// How long either side works before a turn is timed. When a side stops, its threads wait actively for
/// a while, PyTorch's, being GNU's, for about 15 ms; and when it starts again, the operating system
/// may need as long to see that they are worth a processor each. Neither belongs to the work.
const WARM: Duration = Duration::from_millis(30);

struct Options {
    threads: Vec<usize>,
    only: Option<Vec<String>>,
    peers: Vec<&'static Kind>,
    python: String,
    turns: usize,
    large: bool,
    profile: bool,
    memory: bool,
    memory_of: Option<String>,
    all_reduce: bool,
    weak_scaling: bool,
}

impl Options {
    /// The work that is asked for.
    fn workloads(&self) -> Vec<work::Workload> {
        let mut all = if self.large { work::large() } else { work::all() };
        if let Some(words) = &self.only {
            all.retain(|workload| words.iter().any(|word| workload.name.contains(word.as_str())));
        }
        all
    }
}

/// Prints what compiled work spends its time on.
fn profile(options: &Options, threads: usize) {
    for workload in options.workloads() {
        if let Some(profile) = &workload.profile {
            println!("{}, {threads} thread(s)\n{}", workload.name, profile(PROFILED));
        }
    }
}

fn options() -> Result<Options, String> {
    let python = std::env::var("EXTENSOR_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let (threads, turns) = (vec![1, 2], 7);
    let mut options = Options {
        threads,
        only: None,
        peers: KINDS.iter().collect(),
        python,
        turns,
        large: false,
        profile: false,
        memory: false,
        memory_of: None,
        all_reduce: false,
        weak_scaling: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--threads" => {
                let list: Result<_, _> = value()?.split(',').map(str::parse).collect();
                options.threads = list.map_err(|e| format!("--threads: {e}"))?;
            }
            "--large" => options.large = true,
            "--profile" => options.profile = true,
            "--memory" => options.memory = true,
            "--all-reduce" => options.all_reduce = true,
            "--weak-scaling" => options.weak_scaling = true,
            "--memory-of" => options.memory_of = Some(value()?),
            "--only" => options.only = Some(value()?.split(',').map(String::from).collect()),
            "--peers" => options.peers = peers(&value()?)?,
            "--python" => options.python = value()?,
            "--turns" => options.turns = value()?.parse().map_err(|e| format!("--turns: {e}"))?,
            other => {
                return Err(format!(
                    "unknown option {other}; there are --threads, --only, --python, --peers, --turns, --large, --profile, --memory, --all-reduce, --weak-scaling"
                ));
            }
        }
    }
    Ok(options)
}

/// What is timed with several ranks.
#[cfg(feature = "mpi")]
fn ranks(options: &Options) -> extensor::Result<()> {
    if options.all_reduce {
        all_reduce::compare(options.turns)?;
    }
    if options.weak_scaling {
        weak_scaling::compare(options.threads[0], options.turns)?;
    }
    Ok(())
}

#[cfg(not(feature = "mpi"))]
fn ranks(_: &Options) -> Result<(), String> {
    Err("--all-reduce and --weak-scaling need a build with --features mpi".into())
}

fn main() {
    let options = options().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    if options.all_reduce || options.weak_scaling {
        if let Err(error) = ranks(&options) {
            eprintln!("{error}");
            std::process::exit(1);
        }
        return;
    }
    for &threads in &options.threads {
        extensor::threads::set(threads);
        if let Some(kind) = &options.memory_of {
            memory::one(kind);
            continue;
        }
        if options.memory {
            memory::compare(threads);
            continue;
        }
        if options.profile {
            profile(&options, threads);
            continue;
        }
        let started = |kind: &&'static Kind| Peer::start(kind, &options.python, threads);
        let mut peers: Vec<Peer> = options.peers.iter().filter_map(started).collect();
        print!("\n{threads} thread(s)");
        for peer in &peers {
            print!(", {} {}", peer.kind.title, peer.version);
        }
        if peers.is_empty() {
            print!(", no peer found; give a Python that has torch or jax with --python");
        }
        println!("; milliseconds, median and minimum, and ratios of both");
        print!("{:28} {:>10} {:10}", "", "ours", "");
        for title in ["compiled"].into_iter().chain(peers.iter().map(|p| p.kind.title)) {
            print!("   {title:>10} {:10} {:>8} {:>8}", "", "ratio", "(min)");
        }
        println!();
        for mut workload in options.workloads() {
            run(&mut workload, &mut peers, options.turns);
        }
    }
}

/// The peers of these names.
fn peers(list: &str) -> Result<Vec<&'static Kind>, String> {
    let kind = |word: &str| {
        let found = KINDS.iter().find(|kind| kind.word == word);
        found.ok_or(format!("there is no peer {word}; there are torch, compile, jax"))
    };
    list.split(',').filter(|word| !word.is_empty()).map(kind).collect()
}

/// Times one workload and prints its line.
fn run(workload: &mut work::Workload, peers: &mut [Peer], turns: usize) {
    let inner = workload.inner;
    let (mut ours, mut compiled) = (Vec::new(), Vec::new());
    let mut theirs = vec![Vec::new(); peers.len()];
    for turn in 0..=turns {
        let eager = times(&mut workload.f, inner);
        let recorded = workload.compiled.as_mut().map(|f| times(f, inner)).unwrap_or_default();
        let answers = peers.iter_mut().map(|p| p.time(&workload.name, TURN, WARM));
        let answers: Vec<Vec<f64>> = answers.map(Option::unwrap_or_default).collect();
        // The first turn warms up.
        if turn > 0 {
            ours.extend(eager);
            compiled.extend(recorded);
            for (all, answer) in theirs.iter_mut().zip(answers) {
                all.extend(answer);
            }
        }
    }
    let eager = summary(&mut ours);
    print!("{:28} {} {}", workload.name, milliseconds(eager.0), milliseconds(eager.1));
    let best = match compiled.is_empty() {
        true => eager,
        false => summary(&mut compiled),
    };
    column((!compiled.is_empty()).then_some(best), (eager.0 / best.0, eager.1 / best.1));
    for times in &mut theirs {
        let found = (!times.is_empty()).then(|| summary(times));
        let (median, least) = found.unwrap_or_default();
        column(found, (median / best.0, least / best.1));
    }
    println!();
}

/// Prints a median, a minimum and two ratios; room for them if there are none.
fn column(found: Option<(f64, f64)>, (ratio, of_minima): (f64, f64)) {
    match found {
        None => print!("   {:39}", ""),
        Some((median, least)) => {
            let [median, least] = [median, least].map(milliseconds);
            print!("   {median} {least} {ratio:7.2}x {of_minima:7.2}x");
        }
    }
}

/// The seconds that each repetition of a turn took.
fn times(f: &mut dyn FnMut(), inner: usize) -> Vec<f64> {
    let start = Instant::now();
    while start.elapsed() < WARM {
        f();
    }
    let repetition = |_| {
        let start = Instant::now();
        for _ in 0..inner {
            f();
        }
        start.elapsed().as_secs_f64() / inner as f64
    };
    (0..TURN).map(repetition).collect()
}

/// The median and the minimum.
fn summary(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}

fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 0.1 { format!("{ms:10.6}") } else { format!("{ms:10.3}") }
}
