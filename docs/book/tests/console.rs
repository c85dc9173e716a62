//! Every call of the program in the book prints what the page says. The tests are made by `build.rs`, one a page: its calls
//! run one after the other in a folder of their own.

#![cfg(unix)]

use extensor_book::blocks::blocks;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// What a line of a `console` block may begin with.
const PROGRAMS: [&str; 5] = ["extensor", "cat", "echo", "head", "ls"];

fn run_page(page: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book-console").join(page);
    let _ = std::fs::remove_dir_all(&folder);
    let (work, programs) = (folder.join("work"), folder.join("bin"));
    std::fs::create_dir_all(&work).unwrap();
    std::fs::create_dir_all(&programs).unwrap();
    let program = env!("CARGO_BIN_EXE_extensor-of-the-book");
    std::os::unix::fs::symlink(program, programs.join("extensor")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());

    let text = std::fs::read_to_string(extensor_book::folder().join("pages").join(page)).unwrap();
    for block in blocks(&text).unwrap().iter().filter(|block| block.language == "console") {
        let mut calls: Vec<(usize, &str, String)> = Vec::new();
        for (number, line) in (block.line + 1..).zip(block.text.lines()) {
            match (line.strip_prefix("$ "), calls.last_mut()) {
                (Some(call), _) => calls.push((number, call, String::new())),
                (None, Some((_, _, output))) => output.extend([line, "\n"]),
                (None, None) => panic!("pages/{page}:{number}: a console block begins with `$ `"),
            }
        }
        assert!(!calls.is_empty(), "pages/{page}:{}: an empty console block", block.line);
        for (number, call, shown) in calls {
            let call = call.replace("cargo run --release -- ", "extensor ");
            let first = call.split_whitespace().next().unwrap_or("");
            assert!(PROGRAMS.contains(&first), "pages/{page}:{number}: {first:?} cannot be run");
            let (mut reader, writer) = std::io::pipe().unwrap();
            let mut child = Command::new("sh")
                .args(["-c", &call])
                .current_dir(&work)
                .env("PATH", &path)
                .stdout(writer.try_clone().unwrap())
                .stderr(writer)
                .spawn()
                .unwrap();
            let mut printed = String::new();
            reader.read_to_string(&mut printed).unwrap();
            let status = child.wait().unwrap();
            let at = format!("pages/{page}:{number}: {call}");
            assert_eq!(!status.success(), block.is("fails"), "{at}: {status}\n{printed}");
            if let Some(difference) = extensor_book::compare::difference(&shown, &printed) {
                panic!("{at}: {difference}");
            }
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/console_pages.rs"));
