//! Nothing on a page escapes the tests, and the book builds.

use extensor_book::blocks::{Block, blocks, with_output};
use extensor_book::{files, folder};

/// Every language that a block may have, its attributes, and where such blocks are run.
const LANGUAGES: [(&str, &[&str]); 7] = [
    ("rust", &["should_fail"]),              // tests/rust_blocks.rs
    ("python", &["raises", "torch", "jax"]), // crates/extensor-python/tests/test_book.py
    ("console", &["fails"]),                 // tests/console.rs
    ("sh", &[]),                             // COMMANDS, below
    ("toml", &[]),                           // parsed below
    ("json", &[]),                           // parsed below
    ("text", &[]),                           // the output of the block before it, or just a text
];

/// The commands that `sh` blocks may show: those that `.ci/run` runs, and those that only a machine with a network can.
const COMMANDS: [&str; 8] = [
    "cargo run --release -- train",
    "cargo run --release -- check",
    "cargo run --release -p extensor-book",
    "cargo test --workspace",
    "cargo install --path crates/extensor-cli",
    "pip install .",
    "pip install '.[test]'",
    "pytest",
];

/// The pages: where each is below the folder of pages, and its text.
fn pages() -> Vec<(String, String)> {
    let pages = folder().join("pages");
    let paths = files(&pages, ".md").unwrap();
    assert!(!paths.is_empty());
    let name = |path: &std::path::Path| path.strip_prefix(&pages).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// A sentence for what is wrong with a page's blocks.
fn mistakes(text: &str) -> Vec<String> {
    let blocks = match blocks(text) {
        Ok(blocks) => blocks,
        Err(error) => return vec![error],
    };
    let mut mistakes: Vec<String> = blocks.iter().filter_map(mistake).collect();
    for (number, line) in (1..).zip(text.lines()) {
        if line.contains("{{#") {
            mistakes.push(format!("{number}: what is included would escape the tests"));
        }
    }
    for (block, output) in with_output(&blocks) {
        let promised = block.is("should_fail") || block.is("raises");
        if promised && output.is_none() {
            mistakes.push(format!("{}: its error must be shown in a text block", block.line));
        }
    }
    mistakes.extend(unseen(text, &blocks));
    mistakes
}

fn mistake(block: &Block) -> Option<String> {
    let line = block.line;
    let Some((language, attributes)) = LANGUAGES.iter().find(|(name, _)| *name == block.language)
    else {
        return Some(format!("{line}: no test runs blocks of {:?}", block.language));
    };
    if let Some(unknown) = block.attributes.iter().find(|a| !attributes.contains(&a.as_str())) {
        return Some(format!("{line}: blocks of {language} have no attribute {unknown:?}"));
    }
    match *language {
        "sh" => {
            let unknown = block.text.lines().find(|command| !COMMANDS.contains(command));
            unknown.map(|command| format!("{line}: {command:?} is not among the commands"))
        }
        "toml" => {
            let error = toml::from_str::<toml::Table>(&block.text).err();
            error.map(|error| format!("{line}: {error}"))
        }
        "json" => {
            let error = serde_json::from_str::<serde_json::Value>(&block.text).err();
            error.map(|error| format!("{line}: {error}"))
        }
        _ => None,
    }
}

/// What mdBook takes for a block of code and our reader of blocks does not, or the other way round.
fn unseen(text: &str, blocks: &[Block]) -> Vec<String> {
    use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
    let theirs = Parser::new(text).into_offset_iter().filter_map(|(event, range)| {
        let line = text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                Some((line, Some(info.to_string())))
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => Some((line, None)),
            _ => None,
        }
    });
    let theirs: Vec<_> = theirs.collect();
    let ours = |line: usize| blocks.iter().any(|block| block.line == line);
    let mut unseen: Vec<String> = theirs
        .iter()
        .filter(|(line, info)| info.is_none() || !ours(*line))
        .map(|(line, _)| {
            format!("{line}: a block of code that is not between fences at the line's start")
        })
        .collect();
    for block in blocks {
        if !theirs.iter().any(|(line, _)| *line == block.line) {
            unseen.push(format!("{}: a fence that is none for mdBook", block.line));
        }
    }
    unseen
}

#[test]
fn every_block_is_of_a_kind_that_a_test_runs() {
    let wrong: Vec<String> = pages()
        .iter()
        .flat_map(|(page, text)| {
            mistakes(text).into_iter().map(move |m| format!("pages/{page}:{m}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_block_that_would_escape_the_tests_is_found() {
    for page in [
        "```rust,ignore\nlet x = 1;\n```\n",
        "```rust,no_run\nlet x = 1;\n```\n",
        "```mojo\nvar x = 1\n```\n",
        "```\nplain\n```\n",
        "A list:\n\n- with\n\n  ```rust\n  let x = 1;\n  ```\n",
        "~~~rust\nlet x = 1;\n~~~\n",
        "Text.\n\n    indented code\n",
        "```rust\nlet x = 1;\n",
        "{{#include ../src/lib.rs}}\n",
        "```sh\nrm -r folder\n```\n",
        "```toml\nnot toml\n```\n",
        "```json\n{\n```\n",
        "```rust,should_fail\nErr(x)\n```\n",
    ] {
        assert!(!mistakes(page).is_empty(), "{page}");
    }
}

#[test]
fn the_book_builds_with_every_formula_typeset_and_every_link_leading_somewhere() {
    let out = tempfile::tempdir().unwrap();
    extensor_book::assemble::build(&out.path().join("book"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(out.path().join("book/index.html").is_file());
}

#[test]
fn every_link_and_picture_of_the_readme_is_there() {
    use pulldown_cmark::{Event, Parser, Tag};
    let root = folder().join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut seen = 0;
    for event in Parser::new(&readme) {
        let target = match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => dest_url,
            _ => continue,
        };
        if target.starts_with("http") || target.starts_with('#') {
            continue;
        }
        assert!(root.join(target.split('#').next().unwrap()).exists(), "{target}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
}
