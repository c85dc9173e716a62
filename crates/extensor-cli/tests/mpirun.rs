//! `mpirun -n N extensor train`, from outside, with real processes: needs `mpirun` and the feature `mpi`.
//!
//! `EXTENSOR_KILLS=100 cargo test --release -p extensor-cli --features mpi --test mpirun killed` kills more.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_extensor");

fn alone(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).env("EXTENSOR_THREADS", "1");
    command
}

/// The program on so many ranks of this machine, however few its processors.
fn ranks(count: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root", "-n", &count.to_string(), PROGRAM]);
    command.args(arguments).stdin(Stdio::null()).env("EXTENSOR_THREADS", "1");
    // Other machines' networks are not looked for.
    command.env("OMPI_MCA_btl", "self,vader");
    command
}

fn shown(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}\n{err}")
}

fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", shown(&output));
    shown(&output)
}

/// A new folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("extensor-mpi-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// All that a run leaves which must not depend on how it was computed.
fn left(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name != ".lock" {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    for name in ["metrics.jsonl", "config.toml"] {
        found.insert(name.into(), fs::read(run.join(name)).unwrap());
    }
    found
}

fn assert_same(a: &Path, b: &Path, what: &str) {
    let (a, b) = (left(a), left(b));
    assert!(a.keys().eq(b.keys()), "{what}: {:?} {:?}", a.keys(), b.keys());
    for (name, bytes) in &a {
        assert!(*bytes == b[name], "{what}: {name}");
    }
}

/// Trains alone and on 1, 2 and 4 ranks and compares what is left.
fn same_on_any_number_of_ranks(name: &str, arguments: &[&str]) {
    let folder = folder(name);
    let run = |name: &str| folder.join(name);
    let with = |run: &Path, more: &[&str]| {
        let all = [&["train"], arguments, more, &["--out", text(run), "--quiet"]].concat();
        all.into_iter().map(String::from).collect::<Vec<String>>()
    };
    let whole = run("alone");
    let settings = with(&whole, &["--parts", "4"]);
    succeeds(alone(&settings.iter().map(String::as_str).collect::<Vec<_>>()));
    // Four ranks make four parts unless something else is said.
    for (count, more) in [
        (1, &["--parts", "4"][..]),
        (2, &["--parts", "4"]),
        (4, &[]),
        (3, &["--parts", "4", "--shard"]),
        (4, &["--shard", "--compile"]),
    ] {
        let path = run(&format!("{count}-{}", more.len()));
        let settings = with(&path, more);
        let said = succeeds(ranks(count, &settings.iter().map(String::as_str).collect::<Vec<_>>()));
        // One rank speaks.
        assert_eq!(said.matches("folder  ").count(), 1, "{said}");
        assert_same(&whole, &path, &format!("{count} ranks {more:?}"));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn digits_are_learnt_to_the_same_bytes_on_any_number_of_ranks() {
    same_on_any_number_of_ranks(
        "digits",
        &["--model", "mlp", "--width", "16", "--steps", "5", "--batch", "30", "--ema", "0.9"],
    );
}

#[test]
fn letters_are_learnt_to_the_same_bytes_on_any_number_of_ranks() {
    same_on_any_number_of_ranks(
        "letters",
        &[
            "--data",
            "shakespeare",
            "--width",
            "16",
            "--depth",
            "1",
            "--context",
            "16",
            "--steps",
            "5",
            "--batch",
            "8",
            "--eval-every",
            "3",
            "--precision",
            "bf16",
        ],
    );
}

/// Pictures of 4 × 4 in two classes.
fn idx(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (part, count) in [("train", 96u32), ("t10k", 16)] {
        let mut images = vec![0, 0, 8, 3];
        images.extend(count.to_be_bytes());
        images.extend([0, 0, 0, 4, 0, 0, 0, 4]);
        let mut labels = vec![0, 0, 8, 1];
        labels.extend(count.to_be_bytes());
        let mut noise = 12345u32;
        for i in 0..count {
            labels.push((i % 2) as u8);
            for pixel in 0..16 {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let bright = if pixel / 8 == i % 2 { 120 } else { 0 };
                images.push(bright + (noise >> 24) as u8 / 2);
            }
        }
        fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
}

/// How many kills.
fn kills() -> usize {
    std::env::var("EXTENSOR_KILLS").map_or(3, |n| n.parse().unwrap())
}

/// The ranks that write to this run, by rank, as the system knows them.
fn processes(run: &Path) -> BTreeMap<usize, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let (told, around) = (read("cmdline"), read("environ"));
        let told: Vec<&[u8]> = told.split(|byte| *byte == 0).collect();
        let ours =
            told.first() == Some(&PROGRAM.as_bytes()) && told.contains(&text(run).as_bytes());
        let rank = around.split(|byte| *byte == 0).find_map(|variable| {
            std::str::from_utf8(variable).ok()?.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse().ok()
        });
        if let (true, Some(rank)) = (ours, rank) {
            found.insert(rank, id);
        }
    }
    found
}

/// The step of the newest checkpoint that loads.
fn loads(run: &Path) -> Option<u64> {
    extensor_cli::train::saved::newest(run)
        .ok()
        .map(|saved| saved.file.metadata()["step"].parse().unwrap())
}

/// How long it took. A look counts for a second at most: whoever stops all processes for a while, this one
/// included, is not what is measured.
fn wait_for(what: &str, limit: Duration, mut done: impl FnMut() -> bool) -> Duration {
    let (mut spent, mut last) = (Duration::ZERO, Instant::now());
    while !done() {
        assert!(spent < limit, "{what} took longer than {limit:?}");
        std::thread::sleep(Duration::from_millis(1));
        spent += last.elapsed().min(Duration::from_secs(1));
        last = Instant::now();
    }
    spent
}

#[test]
fn a_rank_killed_at_any_moment_ends_all_and_the_run_goes_on_to_the_same_bytes() {
    const RANKS: usize = 4;
    let folder = folder("killed");
    let data = folder.join("data");
    idx(&data);
    let settings = |run: &Path| -> Vec<String> {
        let all = [
            "train",
            "--model",
            "mlp",
            "--width",
            "8",
            "--data",
            text(&data),
            "--batch",
            "12",
            "--steps",
            "600",
            "--eval-every",
            "50",
            "--checkpoint-every",
            "7",
            "--parts",
            "4",
            "--out",
            text(run),
            "--quiet",
        ];
        all.map(String::from).to_vec()
    };
    let start = |count: usize, settings: &[String]| -> Child {
        let mut command = ranks(count, &settings.iter().map(String::as_str).collect::<Vec<_>>());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let limit = Duration::from_secs(60);
    // The undisturbed run, and how long it takes once it has a checkpoint.
    let whole = folder.join("whole");
    let mut child = start(RANKS, &settings(&whole));
    wait_for("the start", limit, || loads(&whole).is_some());
    let length = wait_for("training", limit, || child.try_wait().unwrap().is_some());
    assert_eq!(loads(&whole), Some(600));

    let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ u64::from(std::process::id());
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 11
    };
    let (mut killed, mut slowest, mut by_rank) = (0, Duration::ZERO, [0; RANKS]);
    while killed < kills() {
        let run = folder.join(format!("run-{killed}"));
        let mut child = start(RANKS, &settings(&run));
        wait_for("the start", limit, || loads(&run).is_some());
        std::thread::sleep(length.mul_f64((next() % 1000) as f64 / 1000.0));
        let victim = next() as usize % RANKS;
        let Some(id) = processes(&run).get(&victim).copied() else {
            // It was over before.
            child.wait().unwrap();
            fs::remove_dir_all(run).unwrap();
            continue;
        };
        let sent = Command::new("kill").args(["-KILL", &id.to_string()]).output().unwrap();
        if !sent.status.success() {
            child.wait().unwrap();
            fs::remove_dir_all(run).unwrap();
            continue;
        }
        let ended = wait_for("the end of all ranks", Duration::from_secs(10), || {
            child.try_wait().unwrap().is_some() && processes(&run).is_empty()
        });
        slowest = slowest.max(ended);
        assert!(loads(&run).is_some(), "the run of kill {killed} lost its checkpoints");
        // With as many ranks as there are, or fewer.
        let again = ["train", "--resume", text(&run), "--quiet"].map(String::from);
        let status = start(1 + next() as usize % RANKS, &again).wait().unwrap();
        assert!(status.success(), "{status}");
        assert_same(&whole, &run, &format!("kill {killed} of rank {victim}"));
        fs::remove_dir_all(run).unwrap();
        by_rank[victim] += 1;
        killed += 1;
    }
    println!("{killed} kills, of the ranks {by_rank:?}; the last rank ended {slowest:?} after");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn ranks_with_other_settings_say_who_and_in_what() {
    let folder = folder("settings");
    let out = folder.join("run");
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root"]).env("EXTENSOR_THREADS", "1");
    let some = ["train", "--model", "mlp", "--steps", "3", "--out", text(&out)];
    command.args(["-n", "1", PROGRAM]).args(some).args(["--lr", "0.1"]).arg(":");
    command.args(["-n", "1", PROGRAM]).args(some).args(["--lr", "0.2"]);
    let output = command.output().unwrap();
    let said = shown(&output);
    assert!(!output.status.success());
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(
        said.contains("rank 1") && said.contains("lr = 0.2") && said.contains("lr = 0.1"),
        "{said}"
    );
    assert!(!out.exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_error_of_one_rank_is_one_sentence_with_its_number() {
    let folder = folder("error");
    let (data, out) = (folder.join("data"), folder.join("run"));
    idx(&data);
    // The second rank finds no data.
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--allow-run-as-root"]).env("EXTENSOR_THREADS", "1");
    let some = ["train", "--model", "mlp", "--steps", "3", "--out", text(&out), "--data"];
    let nowhere = folder.join("nowhere");
    command.args(["-n", "1", PROGRAM]).args(some).arg(text(&data)).arg(":");
    command.args(["-n", "1", PROGRAM]).args(some).arg(text(&nowhere));
    let started = Instant::now();
    let output = command.output().unwrap();
    let said = shown(&output);
    assert!(!output.status.success() && started.elapsed() < Duration::from_secs(20), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(said.contains("error: rank 1: ") && said.contains("nowhere"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}
