//! The golden cases: answers from outside, for every operation that exists so far.

use extensor_cli::golden::{Summary, run};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../extensor/tests/golden")
}

fn run_all(folder: &Path) -> Result<Summary, String> {
    run(folder, &|_| true, &mut |_, _| ())
}

/// The cases of operations that came later, which `tools/golden_more.py` writes.
fn more() -> PathBuf {
    folder().join("more")
}

#[test]
fn every_case_of_the_operations_that_came_later_passes() {
    let text = fs::read(more().join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let cases = manifest["cases"].as_array().unwrap().len();
    let summary = run_all(&more()).unwrap();
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures);
    assert!(cases > 0 && summary.passed == cases, "{} of {cases}", summary.passed);
}

#[test]
fn every_golden_case_passes() {
    let summary = run_all(&folder()).unwrap();
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures);
    assert_eq!(summary.passed, 821);
}

/// A copy of the folder in which one file has been changed.
fn altered(name: &str, file: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> PathBuf {
    let copy = std::env::temp_dir().join(format!(
        "extensor-golden-{}-{}",
        std::process::id(),
        name.replace('/', "-")
    ));
    fs::create_dir_all(&copy).unwrap();
    for part in ["manifest.json", "tensors.safetensors"] {
        let bytes = fs::read(folder().join(part)).unwrap();
        let bytes = if part == file { change(bytes) } else { bytes };
        fs::write(copy.join(part), bytes).unwrap();
    }
    copy
}

/// The manifest with some text replaced.
fn edited(name: &str, old: &str, new: &str) -> Summary {
    let copy = altered(name, "manifest.json", |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1).into_bytes()
    });
    let summary = run(&copy, &|op| op == "add" || op == new, &mut |_, _| ()).unwrap();
    fs::remove_dir_all(copy).unwrap();
    summary
}

/// Where the data of a tensor starts in a safetensors file.
fn position(bytes: &[u8], name: &str) -> usize {
    let header = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let fields: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let start = fields[name]["data_offsets"][0].as_u64().unwrap();
    8 + header + start as usize
}

#[test]
fn one_wrong_number_is_found_in_an_output_a_gradient_and_a_second_derivative() {
    for (name, part) in [
        ("exp/001/out", "out is "),
        ("exp/001/grad/x", "grad/x is "),
        ("exp/001/hvp/x", "hvp/x, forward over reverse, is "),
    ] {
        let copy = altered(part.trim(), "tensors.safetensors", |mut bytes| {
            let at = position(&bytes, name);
            bytes[at + 7] ^= 0x80; // the sign of its first number
            bytes
        });
        let summary = run(&copy, &|op| op == "exp", &mut |_, _| ()).unwrap();
        fs::remove_dir_all(copy).unwrap();
        assert_eq!(summary.failures.len(), 1, "{summary:?}");
        assert_eq!(summary.failures[0].id, "exp/001");
        let reason = &summary.failures[0].reason;
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn an_operation_an_input_or_a_parameter_that_does_not_exist_fails_by_name() {
    let unknown = edited("op", "\"op\": \"add\"", "\"op\": \"addd\"");
    assert!(unknown.failures.is_empty(), "filtered by its name");
    let input = edited("input", "\"inputs\": [\"a\"", "\"inputs\": [\"z\"");
    assert!(input.failures[0].reason.contains("\"z\""), "{input:?}");
    let parameter = edited("parameter", "\"params\": {}", "\"params\": {\"axis\": 1}");
    assert!(parameter.failures[0].reason.contains("has no parameter \"axis\""), "{parameter:?}");
    let shape = edited("kind", "\"params\": {}", "\"params\": {\"axis\": {}}");
    assert!(shape.failures[0].reason.contains("axis"), "{shape:?}");
}

#[test]
fn a_tensor_that_is_missing_is_named() {
    let summary = edited("tensor", "\"id\": \"add/000\"", "\"id\": \"add/999\"");
    assert!(summary.failures[0].reason.contains("add/999/"), "{summary:?}");
}

#[test]
fn damaged_files_are_named() {
    let error = |name: &str, file: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let copy = altered(name, file, change);
        let error = run_all(&copy).unwrap_err();
        fs::remove_dir_all(copy).unwrap();
        assert!(error.contains(file), "{error}");
        error
    };
    let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    error("half-manifest", "manifest.json", &half);
    error("half-tensors", "tensors.safetensors", &half);
    error("no-tensors", "tensors.safetensors", &|_| Vec::new());
    error("huge-header", "tensors.safetensors", &|_| vec![0xff; 64]);
    let newer = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        text.replacen("\"format\": 1", "\"format\": 2", 1).into_bytes()
    };
    let message = error("format", "manifest.json", &newer);
    assert!(message.contains("format 2"), "{message}");
    let message = run_all(Path::new("/no/such/folder")).unwrap_err();
    assert!(message.contains("/no/such/folder/manifest.json"), "{message}");
}
