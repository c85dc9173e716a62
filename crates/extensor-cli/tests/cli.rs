//! The program, from outside.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn extensor(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_extensor");
    Command::new(program).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A new folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("extensor-cli-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn check_prints_a_line_for_each_operation_and_a_summary() {
    let output = extensor(&["check", "sq*", "--seed", "4"]);
    assert!(output.status.success(), "{}", out(&output));
    let text = out(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("operation"));
    let names: Vec<&str> = lines[1..lines.len() - 1]
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"sqrt") && names.contains(&"square"), "{text}");
    assert!(names.iter().all(|n| n.starts_with("sq")), "{text}");
    let summary = lines[lines.len() - 1];
    assert!(summary.contains("checks in f16, bf16, f32, f64: all passed"), "{summary}");
    assert!(summary.contains("seed 4"), "{summary}");
    // Nothing but lines where there is no terminal.
    assert!(!text.contains('\u{1b}') && err(&output).is_empty());
}

#[test]
fn dtypes_narrow_the_check() {
    let checks = |arguments: &[&str]| {
        let text = out(&extensor(arguments));
        let line = text.lines().nth(1).unwrap().to_string();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
    };
    let all = checks(&["check", "exp"]);
    let one = checks(&["check", "exp", "--dtype", "f32"]);
    let two = checks(&["check", "exp", "--dtype", "f32,bf16"]);
    assert!(one < two && two < all, "{one} {two} {all}");
}

#[test]
fn a_name_that_is_not_there_is_an_error_that_suggests_one() {
    for arguments in [["check", "sqqrt"], ["ops", "sqqrt"]] {
        let output = extensor(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains("did you mean \"sqrt\"?"), "{}", err(&output));
    }
}

#[test]
fn an_order_that_is_not_available_is_refused_and_not_passed() {
    let output = extensor(&["check", "exp", "--order", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("order 3 is not available"));
    assert!(!extensor(&["check", "exp", "--dtype", "i32"]).status.success());
}

#[test]
fn json_and_html_are_written_whole() {
    let folder = folder("files");
    let (json, html) = (folder.join("check.json"), folder.join("check.html"));
    fs::write(&json, "old").unwrap();
    let files = [json.to_str().unwrap(), html.to_str().unwrap()];
    let output = extensor(&["check", "l*", "--json", files[0], "--html", files[1]]);
    assert!(output.status.success(), "{}", err(&output));

    let value: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(value["passed"], true);
    let operations = value["operations"].as_array().unwrap();
    assert!(operations.iter().all(|op| op["checks"].as_u64() > Some(0)));
    assert!(operations.iter().any(|op| op["name"] == "log" && op["kinds"]["Taylor"].is_u64()));

    let page = fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("id=\"log\"") && page.contains(">ln</mo><mi>x</mi>"));
    // Two plots for log: the error against ε, and the function beside its derivative.
    let section = &page[page.find("id=\"log\"").unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    assert_eq!(section.matches("<svg").count(), 2);
    let plots = &section[section.find("<svg").unwrap()..section.rfind("</svg>").unwrap()];
    assert!(!plots.contains("NaN") && !plots.contains("inf"), "{plots}");
    // Nothing is fetched from anywhere.
    assert!(!page.contains("http") && !page.contains("src="));

    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let folder = folder("unwritable");
    for path in [folder.join("none").join("x.json"), folder.clone()] {
        let output = extensor(&["check", "exp", "--json", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains("cannot write"), "{}", err(&output));
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn golden_cases_close_with_the_count_alone_on_a_line() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../extensor/tests/golden");
    let output = extensor(&["check", "--golden", golden, "exp"]);
    assert!(output.status.success());
    assert_eq!(out(&output), "6 passed, 0 failed\n");
    let output = extensor(&["check", "--golden", golden, "no_such_operation"]);
    assert_eq!(output.status.code(), Some(2));
    let output = extensor(&["check", "--golden", "/no/such/folder"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("cannot read /no/such/folder/manifest.json"));
}

#[test]
fn a_golden_case_that_fails_is_named_and_fails_the_run() {
    let folder = folder("golden");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../extensor/tests/golden");
    let manifest = fs::read_to_string(format!("{source}/manifest.json")).unwrap();
    let manifest = manifest.replacen("\"op\": \"add\"", "\"op\": \"frobnicate\"", 1);
    fs::write(folder.join("manifest.json"), manifest).unwrap();
    fs::copy(format!("{source}/tensors.safetensors"), folder.join("tensors.safetensors")).unwrap();
    let output = extensor(&["check", "frob*", "--golden", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = out(&output);
    assert!(text.contains("FAILED add/000: there is no operation \"frobnicate\""), "{text}");
    assert!(text.ends_with("\n0 passed, 1 failed\n"), "{text}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn ops_lists_every_operation_with_its_formula() {
    let output = extensor(&["ops"]);
    assert!(output.status.success());
    let text = out(&output);
    for record in extensor::ops::catalogue::CATALOGUE {
        assert!(text.contains(&record.signature()), "{}", record.name);
        assert!(text.contains(record.formula), "{}", record.name);
    }
}

#[test]
fn ops_shows_every_operation_with_a_live_example() {
    for record in extensor::ops::catalogue::CATALOGUE {
        let output = extensor(&["ops", record.name]);
        assert!(output.status.success(), "{}: {}", record.name, err(&output));
        let text = out(&output);
        let backward = record.backward_signature();
        for part in [record.formula, record.derivative, &backward, record.domain] {
            assert!(text.contains(part), "{}: {part}", record.name);
        }
        assert!(text.contains(&format!("\n{}(", record.name)), "{text}");
        assert_eq!(text.contains("gradient for "), record.is_differentiable(), "{text}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_panic() {
    for arguments in [&["ops"][..], &["check", "e*"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_extensor"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{:?}: {}", arguments, err(&output));
        assert!(err(&output).is_empty(), "{}", err(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_extensor")).args(["ops"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("cannot write to standard output"));
}

#[test]
fn no_command_shows_the_help() {
    let output = extensor(&[]);
    assert_eq!(output.status.code(), Some(2));
    let output = extensor(&["check", "--help"]);
    let text = out(&output);
    for option in ["--dtype", "--order", "--seed", "--json", "--html", "--golden", "--compiled"] {
        assert!(text.contains(option), "{option}");
    }
}

#[test]
fn check_compiled_compares_the_bits_of_every_derivative_and_counts_them() {
    let json = folder("compiled").join("compiled.json");
    let output = extensor(&["check", "--compiled", "softmax", "--json", json.to_str().unwrap()]);
    let text = out(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.lines().nth(1).unwrap().starts_with("softmax "), "{text}");
    let summary = text.lines().last().unwrap();
    assert!(summary.starts_with("1 operations, ") && summary.contains(": all passed"), "{summary}");
    let found: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let kinds = &found["operations"][0]["kinds"];
    for kind in ["value", "forward mode", "reverse mode", "reverse over reverse", "among others"] {
        assert!(kinds[kind].as_u64() > Some(100), "{kind}: {kinds}");
    }
    assert!(!extensor(&["check", "--compiled", "--points"]).status.success());
}

#[test]
fn points_and_all_numbers_close_with_the_count_alone_on_a_line() {
    for arguments in [["check", "--points", "sqrt"], ["check", "--exhaustive", "sqrt"]] {
        let output = extensor(&arguments);
        assert!(output.status.success(), "{}", out(&output));
        let text = out(&output);
        assert!(text.lines().nth(1).unwrap().starts_with("sqrt "), "{text}");
        let last = text.lines().last().unwrap();
        assert!(last.ends_with(" passed, 0 failed") && !last.starts_with("0 "), "{text}");
    }
}

#[test]
fn a_check_of_points_or_numbers_that_there_are_not_is_an_error() {
    let refused = [
        (&["check", "--points", "expp"][..], "there is no operation \"expp\""),
        (&["check", "--points", "matmul"], "names no function of one or two numbers"),
        (&["check", "--points", "--dtype", "f16"], "there are no points in f16"),
        (&["check", "--exhaustive", "expp"], "there is no operation \"expp\""),
        (&["check", "--exhaustive", "add"], "names no operation of one number"),
        (&["check", "--exhaustive", "--dtype", "f64"], "f64 has too many numbers"),
        (&["check", "--exhaustive", "--dtype", "f16,f32"], "f32 is tried by itself"),
        (&["check", "--exhaustive", "--points"], "cannot be used with"),
        (&["check", "--state", "x"], "--exhaustive"),
    ];
    for (arguments, message) in refused {
        let output = extensor(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
    }
}

#[test]
#[cfg(unix)]
fn all_numbers_of_f32_are_taken_up_where_they_were_interrupted() {
    let state = folder("sweep").join("state");
    let arguments =
        ["check", "--exhaustive", "--dtype", "f32", "relu", "--state", state.to_str().unwrap()];
    let tried = || {
        let text = fs::read_to_string(&state).unwrap();
        let line = text.lines().nth(1).unwrap().to_string();
        u64::from_str_radix(line.split_whitespace().nth(2).unwrap(), 16).unwrap()
    };
    let mut last = 0;
    for _ in 0..2 {
        let program = env!("CARGO_BIN_EXE_extensor");
        let child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", out(&output));
        let text = out(&output);
        assert!(text.lines().last().unwrap().starts_with("interrupted at "), "{text}");
        assert!(tried() > last, "{} after {last}", tried());
        last = tried();
    }
    fs::write(&state, "something else").unwrap();
    let output = extensor(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("remove the file to begin anew"), "{}", err(&output));
}

#[test]
fn ops_prints_a_reference_page_by_another_librarys_name_too() {
    let text = out(&extensor(&["ops", "silu", "--markdown"]));
    assert!(text.starts_with("# swish\n"), "{text}");
    for part in
        ["$$ y = x \\cdot \\sigma (x)", "<svg", "## Checks", "✓ passed", "called `silu` elsewhere"]
    {
        assert!(text.contains(part), "{part}");
    }
    let output = extensor(&["ops", "exp", "--book", "somewhere"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_page_of_a_check_is_one_file_with_an_index_a_filter_and_pass_marks() {
    let page = folder("page").join("check.html");
    let output = extensor(&["check", "s*g*", "--html", page.to_str().unwrap()]);
    assert!(output.status.success());
    let text = fs::read_to_string(&page).unwrap();
    for name in ["sigmoid", "sign"] {
        assert!(text.contains(&format!(
            "<a href=\"#{name}\"><span class=\"good\" title=\"passed\">✓</span> {name}</a>"
        )));
        assert!(text.contains(&format!("<section id=\"{name}\"")));
    }
    for part in [
        "id=\"filter\"",
        "<math",
        "prefers-color-scheme:dark",
        "class=\"tick-x\"",
        "10⁻⁶",
        "error of differences",
    ] {
        assert!(text.contains(part), "{part}");
    }
    // Nothing comes from elsewhere.
    assert!(!text.contains("src=") && !text.contains("<link") && !text.contains("http"));
}
