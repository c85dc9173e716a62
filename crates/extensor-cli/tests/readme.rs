//! What the README prints is what the program prints.

use std::path::Path;
use std::process::Command;

/// The README's blocks that begin with a call of the program: the arguments, and what follows.
fn calls(readme: &str) -> Vec<(Vec<String>, String)> {
    let mut calls = Vec::new();
    for block in readme.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap_or("");
        if let Some((call, output)) = block.split_once('\n')
            && let Some(arguments) = call.strip_prefix("$ extensor ")
        {
            let arguments = arguments.split_whitespace().map(str::to_string).collect();
            calls.push((arguments, output.to_string()));
        }
    }
    calls
}

#[test]
fn what_the_readme_says_the_program_prints_is_what_it_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let Ok(readme) = std::fs::read_to_string(path) else {
        return; // A package has a README of its own.
    };
    let calls = calls(&readme);
    assert!(!calls.is_empty(), "the README shows no call");
    for (arguments, expected) in calls {
        let output =
            Command::new(env!("CARGO_BIN_EXE_extensor")).args(&arguments).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().trim(),
            expected.trim(),
            "{arguments:?}"
        );
    }
}
