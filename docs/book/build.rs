//! Makes tests of the pages' blocks: a source file for each page with Rust on it, in which every line of code is in the line
//! that it has on the page, so that the compiler's messages and panics name the right one.

#[path = "src/blocks.rs"]
#[allow(dead_code)]
mod blocks;

use blocks::{Block, blocks, cells, unhidden, with_output};
use std::path::{Path, PathBuf};

fn main() {
    let folder = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(std::env::var("OUT_DIR").unwrap());
    let pages = folder.join("pages");
    let readme = folder.join("../../README.md");
    println!("cargo::rerun-if-changed=pages");
    println!("cargo::rerun-if-changed={}", readme.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/blocks.rs");

    let (mut rust, mut console) = (String::new(), String::new());
    for path in markdown(&pages).into_iter().chain([readme]) {
        let page = match path.strip_prefix(&pages) {
            Ok(page) => page.to_string_lossy().replace('\\', "/"),
            // What is not among the pages is the README, whose Rust is run too.
            Err(_) => "README.md".into(),
        };
        let text = std::fs::read_to_string(&path).unwrap();
        // A page that cannot be read so is an error of a test, which says it better.
        let Ok(blocks) = blocks(&text) else { continue };
        let name = page.trim_end_matches(".md").to_lowercase();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let names = page.starts_with("coming-from/");
        let table = if names { cells(&text, "Rust") } else { Vec::new() };
        if !table.is_empty() || blocks.iter().any(|block| block.language == "rust") {
            let source = out.join(format!("{page}.rs"));
            std::fs::create_dir_all(source.parent().unwrap()).unwrap();
            std::fs::write(&source, rust_page(&page, &text, &blocks, &table)).unwrap();
            rust.push_str(&format!("#[path = {source:?}]\nmod {name};\n"));
        }
        if blocks.iter().any(|block| block.language == "console") {
            console.push_str(&format!("#[test]\nfn {name}() {{ run_page({page:?}) }}\n"));
        }
    }
    std::fs::write(out.join("rust_blocks.rs"), rust).unwrap();
    std::fs::write(out.join("console_pages.rs"), console).unwrap();
}

/// What the code in tables finds: the values of `Given` in `tests/rust_blocks.rs`, and three functions.
const GIVEN: &str = "let Given { x, y, w, b, labels, index, mask, key, model, grads, optimizer, state, layer, loader } = given; \
    let f = |x: &Tensor| x.square()?.sum(..); \
    let g = |x: &Tensor| x.square(); \
    let loss = |model: &nn::models::Mlp| model.layers[0].weight.square()?.sum(..);";

/// A test for each block of Rust, in the lines where the page has them, and a function that must compile for each piece of
/// code in the tables.
fn rust_page(page: &str, text: &str, blocks: &[Block], table: &[(usize, String)]) -> String {
    let mut lines = vec![String::new(); text.lines().count()];
    for (at, (line, code)) in table.iter().enumerate() {
        // The name of a function, or code that uses it.
        let name = code.chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
        lines[line - 1].push_str(&format!("mod cell_{at} {{ use crate::given::*; "));
        lines[line - 1].push_str(&match name {
            true => format!("use {code} as _; }} "),
            false => format!(
                "fn cell(given: Given) -> Result<()> {{ {GIVEN} let _ = {{ {code} }}; Ok(()) }} }} "
            ),
        });
    }
    for (block, output) in with_output(blocks) {
        if block.language != "rust" {
            continue;
        }
        let code: Vec<String> = block.text.lines().map(unhidden).collect();
        let output = output.map(|output| &output.text);
        let fails = block.is("should_fail");
        let at = block.line;
        lines[at - 1] = format!(
            "#[test] fn line_{at}() {{ crate::run({page:?}, {at}, {output:?}, {fails}, || -> extensor::Result<()> {{"
        );
        let calls_main = code.iter().any(|line| line.trim_start().starts_with("fn main("));
        let ends = code.iter().rfind(|line| !line.trim().is_empty());
        let end = match ends {
            _ if calls_main => "return crate::Outcome::result(main());",
            Some(line) if line.starts_with("Ok(") || line.starts_with("Err(") => "",
            _ => "; Ok(())",
        };
        lines[at + code.len()] = format!("{end} }}) }}");
        lines[at..at + code.len()].clone_from_slice(&code);
    }
    lines.join("\n")
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(markdown(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}
