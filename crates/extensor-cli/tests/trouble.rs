//! The program where something goes wrong: interrupts, two runs in one folder, odd input.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_extensor"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
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

/// What the program says when it refuses.
fn refused(arguments: &[&str]) -> String {
    let output = extensor(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}{}", out(&output), err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
    err(&output)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A new folder with a table in it: two numbers and a class.
fn folder(name: &str, rows: usize) -> (PathBuf, PathBuf) {
    let path = std::env::temp_dir().join(format!("extensor-odd-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    let row = |i: usize| {
        let (a, b) = ((i * 7 % 10) as f64 / 10.0 - 0.5, (i * 3 % 10) as f64 / 10.0 - 0.5);
        format!("{a},{b},{}\n", u8::from(a > b))
    };
    let table = path.join("table.csv");
    fs::write(&table, (0..rows).map(row).collect::<String>()).unwrap();
    (path, table)
}

fn started(child: &mut Child, metrics: &Path, bytes: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while fs::metadata(metrics).map_or(0, |m| m.len()) < bytes {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "it does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn an_interrupt_during_an_evaluation_ends_it_saves_and_the_run_goes_on_from_there() {
    // Few steps and much to test with: nearly all the time is evaluation.
    let (folder, table) = folder("evaluation", 100_000);
    let run = folder.join("run");
    let settings =
        ["--batch", "8", "--steps", "3", "--width", "1024", "--depth", "3", "--threads", "1"];
    let mut arguments = vec!["train", "--data", text(&table), "--out", text(&run)];
    arguments.extend(settings);
    let mut child = command(&arguments).spawn().unwrap();
    let metrics = run.join("metrics.jsonl");
    started(&mut child, &metrics, 1);
    while fs::read_to_string(&metrics).unwrap().lines().count() < 3 {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(20));
    let (sent, before) = (Instant::now(), fs::read_to_string(&metrics).unwrap());
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let took = sent.elapsed();
    assert_eq!(output.status.code(), Some(130), "{}{}", out(&output), err(&output));
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(before.lines().count(), 3, "the evaluation was over before the interrupt");
    assert!(out(&output).contains("stopped after step 3; go on with"), "{}", out(&output));
    assert_eq!(fs::read_to_string(&metrics).unwrap(), before);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn two_runs_in_one_folder_are_refused_with_the_number_of_the_other_process() {
    let (folder, table) = folder("two", 200);
    let run = folder.join("run");
    let mut arguments = vec!["train", "--data", text(&table), "--out", text(&run)];
    arguments.extend(["--steps", "100000000", "--batch", "8", "--quiet"]);
    let mut child = command(&arguments).spawn().unwrap();
    started(&mut child, &run.join("metrics.jsonl"), 500);
    let other = format!("process {} is training in this folder", child.id());
    assert!(refused(&arguments).contains(&other));
    let said = refused(&["train", "--resume", text(&run)]);
    assert!(said.contains(&other), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    // After the kill nobody has it.
    let done = extensor(&["train", "--resume", text(&run), "--steps", "2"]);
    assert!(done.status.success(), "{}", err(&done));
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let steps = metrics.lines().filter(|line| line.contains("\"lr\"")).count();
    let last = metrics.lines().rfind(|line| line.contains("\"lr\"")).unwrap();
    assert!(last.starts_with(&format!("{{\"step\":{steps},")), "{last}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn predict_takes_negative_numbers_and_refuses_what_is_not_finite() {
    let (folder, table) = folder("predict", 100);
    let run = folder.join("run");
    let done = extensor(&["train", "--data", text(&table), "--out", text(&run), "--epochs", "1"]);
    assert!(done.status.success(), "{}", err(&done));
    for input in ["-0.5,0.5", "-1.0,1.0", "-.5,-1e-3", "0.5,-0.5"] {
        let said = extensor(&["predict", text(&run), input]);
        assert!(said.status.success(), "{input}: {}", err(&said));
        assert!(out(&said).contains(" %"), "{}", out(&said));
    }
    let said = extensor(&["predict", text(&run), "-1.0,1.0", "--seed", "3"]);
    assert!(said.status.success(), "{}", err(&said));
    for (input, number) in [("NaN,1", "NaN"), ("1,inf", "inf"), ("1e300,0", "1e300")] {
        let said = refused(&["predict", text(&run), input]);
        let number: f64 = number.parse().unwrap();
        let expected = format!("{number} is not a number that the model can take");
        assert!(said.contains(&expected), "{said}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_label_of_a_thousand_million_is_refused_and_not_a_model_of_as_many_classes() {
    let (folder, table) = folder("label", 20);
    let mut rows = fs::read_to_string(&table).unwrap();
    rows.push_str("1,2,1000000000\n");
    fs::write(&table, rows).unwrap();
    let said = refused(&["train", "--data", text(&table), "--out", text(&folder.join("run"))]);
    let expected = "the label is 1000000000, expected below 1000: the 3 different classes in these \
                    21 rows should be numbered from 0 on";
    assert!(said.contains(expected), "{said}");
    assert!(!folder.join("run").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_setting_that_means_nothing_is_an_error_that_says_what_is_expected() {
    for (name, value) in
        [("EXTENSOR_ISA", "avx2"), ("EXTENSOR_THREADS", "many"), ("EXTENSOR_POISON", "yes")]
    {
        let output = command(&["ops"]).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}{}", out(&output), err(&output));
        let expected = format!("error: {name} is {value:?}, expected ");
        assert!(err(&output).starts_with(&expected), "{}", err(&output));
    }
}
