//! `extensor train`, `eval`, `predict` and `inspect`, from outside.

use extensor::io::safetensors;
use extensor::train::Directory;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_extensor"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn extensor(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = extensor(arguments);
    assert!(output.status.success(), "{arguments:?}: {} {}", out(&output), err(&output));
    out(&output)
}

/// What the program says when it refuses.
fn refused(arguments: &[&str]) -> String {
    let output = extensor(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", out(&output));
    let text = err(&output);
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// A new folder for a test's files, with pictures in it to learn.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("extensor-fit-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let data = path.join("data");
    fs::create_dir_all(&data).unwrap();
    for (part, count) in [("train", 120), ("t10k", 40)] {
        idx(&data, part, count);
    }
    path
}

/// Pictures of 12 × 12 in three classes: the upper, the middle or the lower third is bright.
fn idx(folder: &Path, part: &str, count: u32) {
    let mut images = vec![0, 0, 8, 3];
    images.extend(count.to_be_bytes());
    images.extend([0, 0, 0, 12, 0, 0, 0, 12]);
    let mut labels = vec![0, 0, 8, 1];
    labels.extend(count.to_be_bytes());
    let mut noise = 12345u32;
    for i in 0..count {
        let class = i % 3;
        labels.push(class as u8);
        for pixel in 0..144 {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let bright = if pixel / 48 == class { 120 } else { 0 };
            images.push(bright + (noise >> 24) as u8 / 2);
        }
    }
    fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
    fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The arguments of a small run.
fn small<'a>(data: &'a str, out: &'a str) -> Vec<&'a str> {
    vec![
        "train", "--model", "mlp", "--width", "8", "--data", data, "--epochs", "3", "--batch",
        "10", "--lr", "0.01", "--seed", "4", "--out", out,
    ]
}

#[test]
fn a_folder_of_other_pictures_trains_with_no_code_change() {
    let folder = folder("pictures");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let shown = succeeds(&small(text(&data), text(&run)));
    assert!(shown.contains("best       100.00 % of 40 right"), "{shown}");
    for name in ["curves.svg", "confusion.svg", "mistakes.svg"] {
        let path = run.join("plots").join(name);
        assert!(shown.contains(text(&path)), "{shown}");
        assert!(fs::read_to_string(path).unwrap().trim_end().ends_with("</svg>"));
    }
    let records = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert_eq!(records.lines().filter(|l| l.contains("\"loss\"")).count(), 36);
    assert_eq!(records.lines().filter(|l| l.contains("\"test_accuracy\"")).count(), 3);
    assert!(run.join("tensorboard").join("events.out.tfevents.1.extensor").exists());

    let evaluated = succeeds(&["eval", text(&run)]);
    assert!(evaluated.contains("100.00 % of 40 right"), "{evaluated}");
    let inspected = succeeds(&["inspect", text(&run)]);
    for part in ["model.layers.0.weight", "[8, 144]", "optimizer.exp_avg_sq.", "F32", "best_step"] {
        assert!(inspected.contains(part), "{part}: {inspected}");
    }
    // Of another size than the model's: it is scaled. The middle third is bright.
    let picture = folder.join("picture.png");
    let mut encoder = png::Encoder::new(fs::File::create(&picture).unwrap(), 24, 24);
    encoder.set_color(png::ColorType::Grayscale);
    let pixels: Vec<u8> =
        (0..576).map(|i| if (192..384).contains(&i) { 180 } else { 40 }).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    let said = succeeds(&["predict", text(&run), text(&picture)]);
    assert!(said.trim_start().starts_with("1 ") && said.contains('█'), "{said}");

    let again = refused(&small(text(&data), text(&run)));
    assert!(again.contains("holds a run already") && again.contains("--resume"), "{again}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn lenet_and_the_residual_network_train_and_their_gradients_are_proved() {
    let folder = folder("models");
    let data = folder.join("data");
    for model in ["lenet5", "resnet", "mlp"] {
        let run = folder.join(model);
        let shown = succeeds(&[
            "train",
            "--model",
            model,
            "--width",
            "8",
            "--data",
            text(&data),
            "--steps",
            "3",
            "--batch",
            "6",
            "--check-gradients",
            "--out",
            text(&run),
        ]);
        assert!(shown.contains("parameters: the gradient is right"), "{shown}");
        assert!(shown.contains("directions through"), "{shown}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_text_is_learnt_letter_by_letter_and_continued() {
    let folder = folder("text");
    let path = folder.join("rhyme.txt");
    fs::write(&path, "the cat sat on the mat and the rat sat on the hat\n".repeat(40)).unwrap();
    let run = folder.join("run");
    let shown = succeeds(&[
        "train",
        "--model",
        "gpt",
        "--data",
        text(&path),
        "--width",
        "16",
        "--depth",
        "1",
        "--context",
        "8",
        "--steps",
        "30",
        "--batch",
        "8",
        "--lr",
        "0.01",
        "--eval-every",
        "15",
        "--check-gradients",
        "--out",
        text(&run),
    ]);
    assert!(shown.contains("the gradient is right"), "{shown}");
    assert!(shown.contains("nats a letter"), "{shown}");
    assert!(run.join("plots/attention.svg").exists() && run.join("plots/sample.txt").exists());
    let said = succeeds(&["predict", text(&run), "the ", "--letters", "20"]);
    assert_eq!(said.trim_end_matches('\n').chars().count().max(20), said.chars().count() - 1);
    assert!(said.starts_with("the "));
    assert!(refused(&["predict", text(&run), "THE"]).contains("never seen the letter 'T'"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_table_is_learnt_and_asked() {
    let folder = folder("table");
    let path = folder.join("points.csv");
    let mut table = String::from("x,y,class\n");
    for i in 0..100 {
        let (x, y) = ((i * 37 % 100) as f64 / 10.0, (i * 71 % 100) as f64 / 10.0);
        table += &format!("{x},{y},{}\n", i32::from(x > y));
    }
    fs::write(&path, table).unwrap();
    let run = folder.join("run");
    let shown = succeeds(&[
        "train",
        "--data",
        text(&path),
        "--epochs",
        "30",
        "--batch",
        "16",
        "--lr",
        "0.02",
        "--out",
        text(&run),
    ]);
    assert!(shown.contains("mlp"), "{shown}");
    let said = succeeds(&["predict", text(&run), "9, 1"]);
    assert!(said.trim_start().starts_with("1 "), "{said}");
    assert!(refused(&["predict", text(&run), "9"]).contains("takes 2 numbers, got 1"));
    fs::remove_dir_all(folder).unwrap();
}

/// The files of two finished runs that must be the same to the bit.
fn assert_same(a: &Path, b: &Path, what: &str) {
    let steps = |run: &Path| Directory::open(run.join("checkpoints"), 1).unwrap().steps().unwrap();
    assert_eq!(steps(a), steps(b), "{what}");
    let last = format!("checkpoints/step-{:09}.safetensors", steps(a).last().unwrap());
    for name in [last.as_str(), "metrics.jsonl", "config.toml"] {
        let same = fs::read(a.join(name)).unwrap() == fs::read(b.join(name)).unwrap();
        assert!(same, "{what}: {name} differs");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let folder = folder("threads");
    let data = folder.join("data");
    for threads in ["1", "2"] {
        let run = folder.join(threads);
        let mut arguments = small(text(&data), text(&run));
        arguments.extend(["--threads", threads]);
        succeeds(&arguments);
    }
    assert_same(&folder.join("1"), &folder.join("2"), "threads");
    fs::remove_dir_all(folder).unwrap();
}

/// Every network, in f32 and bf16, on one thread and two, and what not every run has: micro-batches, a
/// moving average, clipping, a loss scale.
#[test]
fn compiling_changes_no_bit() {
    let folder = folder("compiled");
    let data = folder.join("data");
    let letters: String = (0..4000).map(|k| ['a', 'b', '\n', ' '][k * k % 13 % 4]).collect();
    let book = folder.join("book.txt");
    fs::write(&book, letters).unwrap();
    let small = ["--steps", "4", "--batch", "8", "--eval-every", "2", "--quiet"];
    let models: [(&str, &Path, &[&str]); 4] = [
        ("mlp", &data, &["--width", "16", "--ema", "0.9", "--clip", "0.5"]),
        ("lenet5", &data, &["--accumulate", "2", "--optimizer", "sgd"]),
        ("resnet", &data, &["--clip", "0"]),
        ("gpt", &book, &["--width", "32", "--depth", "2", "--context", "8"]),
    ];
    for (model, data, more) in models {
        for precision in ["f32", "bf16", "f16"] {
            let mut runs = Vec::new();
            for compile in ["--compile=false", "--compile"] {
                for threads in ["1", "2"] {
                    let name = format!("{model}{precision}{compile}{threads}");
                    let run = folder.join(name);
                    let mut arguments = vec!["train", "--model", model, "--data", text(data)];
                    arguments.extend(["--out", text(&run), "--precision", precision]);
                    arguments.extend(["--threads", threads, compile]);
                    arguments.extend(small.iter().chain(more));
                    succeeds(&arguments);
                    runs.push(run);
                }
            }
            for run in &runs[1..] {
                assert_same(&runs[0], run, &format!("{model} {precision}"));
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

fn start(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Loads all of the newest checkpoint, if the process lived long enough to write one.
fn loads(run: &Path) -> Option<u64> {
    let folder = run.join("checkpoints");
    if !folder.is_dir() {
        return None;
    }
    let directory = Directory::open(folder, 1).unwrap();
    let step = *directory.steps().unwrap().last()?;
    let file = safetensors::load(directory.path_of(step)).unwrap();
    for name in file.names() {
        file.tensor(name).unwrap();
    }
    Some(step)
}

/// How many kills: `EXTENSOR_KILLS=200 cargo test --release -p extensor-cli --test train killed`.
fn kills() -> usize {
    std::env::var("EXTENSOR_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

#[test]
fn killed_at_any_moment_it_has_a_checkpoint_and_goes_on_to_the_same_bits() {
    let folder = folder("kill");
    let data = folder.join("data");
    let whole = folder.join("whole");
    let arguments = |run: &Path| {
        let mut all: Vec<String> =
            small(text(&data), text(run)).into_iter().map(String::from).collect();
        all.extend(["--checkpoint-every", "1", "--keep", "2", "--quiet"].map(String::from));
        all
    };
    let begun = Instant::now();
    let first = arguments(&whole);
    succeeds(&first.iter().map(String::as_str).collect::<Vec<_>>());
    let length = begun.elapsed();

    let mut random = 88172645463325252u64;
    let mut killed = 0;
    let mut unfinished = 0;
    let mut run_number = 0;
    while killed < kills() {
        run_number += 1;
        let run = folder.join(format!("run-{run_number}"));
        loop {
            let resumable = loads(&run).is_some();
            let fresh = arguments(&run);
            let fresh: Vec<&str> = fresh.iter().map(String::as_str).collect();
            let resume = ["train", "--resume", text(&run), "--quiet"];
            let mut child = start(if resumable { &resume } else { &fresh });
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let wait = length.mul_f64((random % 1000) as f64 / 1000.0);
            let until = Instant::now() + wait;
            let mut ended = None;
            while killed < kills() && ended.is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
                ended = child.try_wait().unwrap();
            }
            if killed >= kills() {
                ended = Some(child.wait().unwrap());
            }
            if let Some(status) = ended {
                assert!(status.success(), "{status}");
                break;
            }
            // SIGKILL: nothing can be done about it.
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
            let now = loads(&run);
            assert!(now.is_some() || !resumable, "a run lost its checkpoints");
            unfinished += usize::from(now.is_some_and(|step| step > 0 && step < 36));
        }
        assert_same(&whole, &run, "killed");
        let orphans = fs::read_dir(run.join("checkpoints")).unwrap().flatten();
        let orphans = orphans.filter(|e| e.path().extension().is_none_or(|x| x != "safetensors"));
        let orphans = orphans.filter(|e| e.file_name() != ".lock");
        assert_eq!(orphans.count(), 0);
        fs::remove_dir_all(run).unwrap();
    }
    // Most kills hit a run under way, or the test would show nothing.
    assert!(unfinished * 4 >= killed, "{unfinished} of {killed}");
    fs::remove_dir_all(folder).unwrap();
}

#[cfg(unix)]
#[test]
fn an_interrupt_finishes_the_step_saves_says_how_to_resume_and_exits_with_130() {
    let folder = folder("interrupt");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let mut arguments = small(text(&data), text(&run));
    let epochs = arguments.iter().position(|a| *a == "--epochs").unwrap();
    arguments[epochs + 1] = "100000";
    arguments.extend(["--checkpoint-every", "1000000"]);
    let child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let metrics = run.join("metrics.jsonl");
    let until = Instant::now() + Duration::from_secs(60);
    while fs::metadata(&metrics).map_or(0, |m| m.len()) < 500 {
        assert!(Instant::now() < until, "it does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
    let said = out(&output);
    assert!(
        said.contains(&format!("go on with: extensor train --resume {}", text(&run))),
        "{said}"
    );
    let step = loads(&run).unwrap();
    assert!(step > 0 && said.contains(&format!("stopped after step {step}")), "{said}");
    let last = fs::read_to_string(&metrics).unwrap();
    assert!(last.lines().last().unwrap().starts_with(&format!("{{\"step\":{step},")));
    fs::remove_dir_all(folder).unwrap();
}

#[cfg(not(feature = "mpi"))]
#[test]
fn under_mpirun_a_program_without_mpi_says_how_to_build_it_and_trains_nothing() {
    let folder = folder("alone");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let arguments = small(text(&data), text(&run));
    let of_four = |rank: &str| {
        let mut command = command(&arguments);
        command.envs([("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", rank)]);
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
        err(&output)
    };
    let said = of_four("0");
    assert!(said.contains("mpirun started 4 ranks") && said.contains("--features mpi"), "{said}");
    // Once for all of them.
    assert_eq!(of_four("3"), "");
    assert!(!run.exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn parts_of_a_batch_are_a_setting_that_a_resumed_run_keeps() {
    let folder = folder("parts");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let mut arguments = small(text(&data), text(&run));
    arguments.extend(["--parts", "3", "--synchronised", "--schedule", "constant", "--quiet"]);
    let first = [&arguments[..], &["--steps", "5"]].concat();
    succeeds(&first);
    succeeds(&["train", "--resume", text(&run), "--steps", "9", "--quiet"]);
    let settings = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(
        settings.contains("parts = 3\n") && settings.contains("synchronised = true"),
        "{settings}"
    );
    let whole = folder.join("whole");
    let mut at_once = [&arguments[..], &["--steps", "9"]].concat();
    let out = at_once.iter().position(|a| *a == "--out").unwrap();
    at_once[out + 1] = text(&whole);
    succeeds(&at_once);
    let losses = |run: &Path| -> Vec<String> {
        let all = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        all.lines().filter(|line| line.contains("\"loss\"")).map(String::from).collect()
    };
    assert_eq!(losses(&run).len(), 9);
    assert_eq!(losses(&run), losses(&whole));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_flag_can_stand_in_the_file_and_a_flag_counts_more() {
    use clap::Args;
    let flags = extensor_cli::train::config::Settings::augment_args(clap::Command::new("x"));
    let mut flags: Vec<String> =
        flags.get_arguments().filter_map(|a| a.get_long()).map(String::from).collect();
    let mut keys: Vec<String> = extensor_cli::train::config::keys().map(String::from).collect();
    flags.sort();
    keys.sort();
    assert_eq!(flags, keys);

    let folder = folder("config");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let path = folder.join("run.toml");
    let lines = format!(
        "model = \"mlp\"\nwidth = 8\ndata = {:?}\nout = {:?}\nepochs = 2\nbatch = 10\nlr = 1\n",
        text(&data),
        text(&run)
    );
    fs::write(&path, lines).unwrap();
    succeeds(&["train", text(&path), "--lr", "0.01", "--epochs=1"]);
    let kept = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(
        kept.contains("lr = 0.01") && kept.contains("epochs = 1") && kept.contains("width = 8")
    );
    assert!(!kept.contains("out =") && !kept.contains("threads ="), "{kept}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_wrong_file_of_settings_is_refused_with_key_expected_and_got() {
    let folder = folder("settings");
    let path = folder.join("run.toml");
    let said = |lines: &str| {
        fs::write(&path, lines).unwrap();
        refused(&["train", text(&path)])
    };
    for (lines, expected) in [
        ("epoch = 3", "there is no key \"epoch\"; did you mean \"epochs\"?"),
        ("zzz = 3", "there is no key \"zzz\"; there are model, data,"),
        ("epochs = \"ten\"", "epochs: expected a whole number from 1 on, got the text \"ten\""),
        ("epochs = 0", "epochs: expected a whole number from 1 on, got 0"),
        ("batch = -4", "batch: expected a whole number from 1 on, got -4"),
        ("lr = true", "lr: expected a number, got true"),
        ("lr = nan", "lr: expected a finite number of at least 0, got NaN"),
        ("model = \"lenet\"", "model: expected one of \"mlp\", \"lenet5\", \"resnet\", \"gpt\""),
        ("quiet = 1", "quiet: expected true or false, got 1"),
        ("out = [1]", "out: expected a text in quotes, got an array"),
        ("epochs = 3\nbatch = = 4", "line 2:"),
        ("weight-decay = 1\nweight_decay = 2", "stands there twice"),
        ("ema = 1.5", "ema: expected a number from 0 up to 1, got 1.5"),
    ] {
        let error = said(lines);
        assert!(error.contains(expected), "{lines}: {error}");
    }
    assert!(refused(&["train", text(&folder.join("none.toml"))]).contains("none.toml"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let folder = folder("misfit");
    let (data, run) = (folder.join("data"), folder.join("run"));
    succeeds(&small(text(&data), text(&run)));
    let resume = ["train", "--resume", text(&run)];
    let wider = refused(&[&resume[..], &["--width", "9"]].concat());
    assert!(wider.contains("layers.0") && wider.contains("[8, 144]"), "{wider}");
    let sgd = refused(&[&resume[..], &["--optimizer", "sgd"]].concat());
    assert!(sgd.contains("momentum_buffer"), "{sgd}");
    let other = refused(&[&resume[..], &["--data", "mnist"]].concat());
    assert!(other.contains("learnt other data") || other.contains("layers.0"), "{other}");
    assert!(refused(&[&resume[..], &["--out", "x"]].concat()).contains("leave out --out"));
    let nowhere = folder.join("nowhere");
    assert!(refused(&["train", "--resume", text(&nowhere)]).contains("no checkpoints"));
    let gpt = ["train", "--model", "gpt", "--data", text(&data), "--out", text(&nowhere)];
    assert!(refused(&gpt).contains("the model gpt does not learn pictures; use --model lenet5"));
    let none = ["train", "--data", text(&nowhere), "--out", text(&nowhere)];
    assert!(refused(&none).contains("built-in mnist and shakespeare"));
    assert!(
        refused(&["eval", text(&data.join("train-images-idx3-ubyte"))]).contains("safetensors")
    );
    assert!(refused(&["predict", text(&run), text(&data)]).contains("cannot"));
    // The newest is broken: the one before it is used, and said so.
    let directory = Directory::open(run.join("checkpoints"), 1).unwrap();
    let newest = directory.path_of(*directory.steps().unwrap().last().unwrap());
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    let shown = succeeds(&resume);
    assert!(shown.contains("does not load, the one before it is used"), "{shown}");
    assert_eq!(fs::read(&newest).unwrap(), bytes);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_loss_that_diverges_ends_with_the_operation_and_how_to_go_on() {
    let folder = folder("diverge");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let error = refused(&[
        "train",
        "--model",
        "mlp",
        "--width",
        "8",
        "--data",
        text(&data),
        "--epochs",
        "9",
        "--batch",
        "10",
        "--optimizer",
        "sgd",
        "--lr",
        "1e30",
        "--schedule",
        "constant",
        "--out",
        text(&run),
    ]);
    assert!(error.contains("the loss is") || error.contains("a gradient is not finite"), "{error}");
    assert!(error.contains("called at") && error.contains("--resume"), "{error}");
    assert!(loads(&run).is_some());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn reduced_precision_trains_too() {
    let folder = folder("precision");
    let data = folder.join("data");
    for precision in ["bf16", "f16"] {
        let run = folder.join(precision);
        let mut arguments = small(text(&data), text(&run));
        arguments.extend(["--precision", precision]);
        let shown = succeeds(&arguments);
        assert!(shown.contains("100.00 % of 40 right"), "{shown}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_overflow_planted_in_a_layer_is_seen_halves_the_scale_and_is_survived() {
    let folder = folder("overflow");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let mut arguments = small(text(&data), text(&run));
    arguments.extend(["--precision", "f16", "--optimizer", "sgd"]);
    succeeds(&arguments);
    // Back to the first epoch's end, with a layer that is 2¹² times too small and one after it that is as
    // much too large: what goes forward is as before, and what comes back between them overflows f16.
    let directory = Directory::open(run.join("checkpoints"), 1).unwrap();
    for step in directory.steps().unwrap() {
        if step != 12 {
            fs::remove_file(directory.path_of(step)).unwrap();
        }
    }
    let file = safetensors::load(directory.path_of(12)).unwrap();
    let planted = |name: &str| {
        let x = file.tensor(name).unwrap();
        let factor = match name {
            "model.layers.0.weight" | "model.layers.0.bias" => 1.0 / 4096.0,
            "model.layers.1.weight" => 4096.0,
            _ => return x,
        };
        extensor::ops::multiply(&x, &extensor::Tensor::scalar_of(factor, x.dtype()).unwrap())
            .unwrap()
    };
    let tensors: BTreeMap<String, _> = file.names().map(|n| (n.to_string(), planted(n))).collect();
    let mut contents = safetensors::Contents::new().with("", &tensors);
    for (name, value) in file.metadata() {
        contents = contents.metadata(name, value);
    }
    let before: f64 = file.metadata()["loss_scale"].parse().unwrap();
    let already: u32 = file.metadata()["overflows"].parse().unwrap();
    contents.save(directory.path_of(12)).unwrap();

    let shown = succeeds(&["train", "--resume", text(&run), "--lr", "1e-9"]);
    let newest = safetensors::load(directory.path_of(36)).unwrap();
    let (after, overflows): (f64, u32) = (
        newest.metadata()["loss_scale"].parse().unwrap(),
        newest.metadata()["overflows"].parse().unwrap(),
    );
    let planted = overflows - already;
    assert!((2..20).contains(&planted), "{planted} overflows");
    assert_eq!(after, before / 2f64.powi(planted as i32));
    assert!(shown.contains(&format!("{overflows}, each survived")), "{shown}");
    let records = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let later = records.lines().filter(|line| line.contains("\"lr\"")).skip(12);
    let skipped: Vec<bool> = later.map(|line| line.contains("\"skipped\":1")).collect();
    assert_eq!((skipped.len(), skipped.iter().filter(|s| **s).count()), (24, planted as usize));
    assert!(skipped[0] && !skipped[23], "{skipped:?}");
    for name in newest.names() {
        let x = newest.tensor(name).unwrap();
        assert!(x.to_f64_vec().iter().all(|v| v.is_finite()), "{name}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nobody_reading_is_no_panic() {
    let folder = folder("closed");
    let (data, run) = (folder.join("data"), folder.join("run"));
    let mut child = command(&small(text(&data), text(&run)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert!(!err(&output).contains("panicked"));
    assert!(run.join("plots/curves.svg").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn completions_and_manual_name_every_flag() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(succeeds(&["completions", shell]).contains("check-gradients"));
    }
    let manual = succeeds(&["man", "train"]).replace("\\-", "-");
    for key in extensor_cli::train::config::keys() {
        assert!(manual.contains(&format!("--{key}")), "{key}");
    }
    assert!(succeeds(&["man"]).contains("inspect"));
    assert!(refused(&["man", "walk"]).contains("walk"));
}

/// An IDX file as two, of `first` examples and of the rest.
fn cut(folder: &Path, name: &str, axes: usize, first: usize) {
    let whole = fs::read(folder.join(name)).unwrap();
    fs::remove_file(folder.join(name)).unwrap();
    let (head, rest) = whole.split_at(4 + 4 * axes);
    let count = u32::from_be_bytes(head[4..8].try_into().unwrap()) as usize;
    let each = rest.len() / count;
    for (part, examples) in [&rest[..first * each], &rest[first * each..]].into_iter().enumerate() {
        let mut bytes = head.to_vec();
        bytes[4..8].copy_from_slice(&((examples.len() / each) as u32).to_be_bytes());
        bytes.extend(examples);
        fs::write(folder.join(format!("{part}-{name}")), bytes).unwrap();
    }
}

#[test]
fn pictures_in_shards_give_the_checkpoint_of_the_same_pictures_in_memory_byte_for_byte() {
    let run = |name: &str, shards: bool| {
        let folder = folder(name);
        if shards {
            cut(&folder.join("data"), "train-images-idx3-ubyte", 3, 50);
            cut(&folder.join("data"), "train-labels-idx1-ubyte", 1, 50);
            cut(&folder.join("data"), "t10k-images-idx3-ubyte", 3, 1);
            cut(&folder.join("data"), "t10k-labels-idx1-ubyte", 1, 1);
        }
        let arguments =
            "train --model mlp --width 8 --data data --batch 16 --steps 20 --augment --out run";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = command(&arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        let plot = fs::read(folder.join("run/plots/mistakes.svg")).unwrap();
        let saved = fs::read_dir(folder.join("run/checkpoints")).unwrap();
        let mut saved: Vec<PathBuf> = saved.map(|file| file.unwrap().path()).collect();
        saved.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
        saved.sort();
        let bytes: Vec<Vec<u8>> = saved.iter().map(|path| fs::read(path).unwrap()).collect();
        assert!(!bytes.is_empty());
        (folder, bytes, plot)
    };
    let (whole, expected, expected_plot) = run("whole", false);
    let (parts, found, plot) = run("parts", true);
    assert!(expected == found && expected_plot == plot);
    // One shard too short, and what is no picture, are errors that name the file.
    let data = parts.join("data");
    fs::File::options()
        .write(true)
        .open(data.join("1-train-images-idx3-ubyte"))
        .unwrap()
        .set_len(500)
        .unwrap();
    let text_ = refused(&["train", "--data", text(&data), "--steps", "1"]);
    assert!(text_.contains("1-train-images-idx3-ubyte") && text_.contains("484 follow"), "{text_}");
    fs::remove_dir_all(whole).unwrap();
    fs::remove_dir_all(parts).unwrap();
}
