//! Times ExTensor beside PyTorch, in one run, interleaved: a figure without its peer beside it in
//! the same run says nothing.
//!
//! ```text
//! cargo run --release -p extensor-bench -- [--threads 1,2] [--only WORD] [--python PATH] [--turns N] [--large]
//! cargo run --release -p extensor-bench -- --memory [--threads 1,2]
//! ```
//!
//! Each workload is timed in turns, a few repetitions of ours and then a few of PyTorch's, each after
//! 30 ms of the same that are not timed, with the same number of threads; the median and the minimum
//! are shown, and the ratio of the medians and minima (above 1: ExTensor is faster). Without a Python
//! that has torch only our side is shown.

mod memory;
mod networks;
mod peer;
mod training;
mod work;

use peer::Peer;
use std::time::{Duration, Instant};

/// Repetitions in one turn.
const TURN: usize = 3;

/// How long either side works before a turn is timed. When a side stops, its threads wait actively for
/// a while, PyTorch's, being GNU's, for about 15 ms; and when it starts again, the operating system
/// may need as long to see that they are worth a processor each. Neither belongs to the work.
const WARM: Duration = Duration::from_millis(30);

struct Options {
    threads: Vec<usize>,
    only: Option<String>,
    python: String,
    turns: usize,
    large: bool,
    memory: bool,
    memory_of: Option<String>,
}

fn options() -> Result<Options, String> {
    let python = std::env::var("EXTENSOR_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let (threads, turns) = (vec![1, 2], 7);
    let mut options = Options {
        threads,
        only: None,
        python,
        turns,
        large: false,
        memory: false,
        memory_of: None,
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
            "--memory" => options.memory = true,
            "--memory-of" => options.memory_of = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--python" => options.python = value()?,
            "--turns" => options.turns = value()?.parse().map_err(|e| format!("--turns: {e}"))?,
            other => {
                return Err(format!(
                    "unknown option {other}; there are --threads, --only, --python, --turns, --large, --memory"
                ));
            }
        }
    }
    Ok(options)
}

fn main() {
    let options = options().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
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
        let mut peer = Peer::start(&options.python, threads);
        let version = peer
            .as_ref()
            .map_or("not found; give a Python that has it with --python", |p| &p.version);
        println!("\n{threads} thread(s), PyTorch {version}; milliseconds, median and minimum");
        println!(
            "{:28} {:>10} {:>10}   {:>10} {:>10}   {:>7} {:>7}",
            "", "ours", "", "PyTorch", "", "ratio", "(min)"
        );
        for mut workload in if options.large { work::large() } else { work::all() } {
            if options.only.as_ref().is_some_and(|word| !workload.name.contains(word.as_str())) {
                continue;
            }
            run(&mut workload, peer.as_mut(), options.turns);
        }
    }
}

/// Times one workload and prints its line.
fn run(workload: &mut work::Workload, mut peer: Option<&mut Peer>, turns: usize) {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for turn in 0..=turns {
        let start = Instant::now();
        while start.elapsed() < WARM {
            (workload.f)();
        }
        let times: Vec<f64> = (0..TURN)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..workload.inner {
                    (workload.f)();
                }
                start.elapsed().as_secs_f64() / workload.inner as f64
            })
            .collect();
        let answer = peer.as_mut().and_then(|p| p.time(&workload.name, TURN, WARM));
        // The first turn warms up.
        if turn > 0 {
            ours.extend(times);
            theirs.extend(answer.unwrap_or_default());
        }
    }
    let (median, least) = summary(&mut ours);
    print!("{:28} {} {}", workload.name, milliseconds(median), milliseconds(least));
    if theirs.is_empty() {
        return println!();
    }
    let (their_median, their_least) = summary(&mut theirs);
    println!(
        "   {} {}   {:6.2}x {:6.2}x",
        milliseconds(their_median),
        milliseconds(their_least),
        their_median / median,
        their_least / least
    );
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
