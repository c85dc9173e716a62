//! The whole book: the pages, the generated reference, formulas, mdBook, and links that lead somewhere.

use crate::{files, folder, links, math};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use std::path::{Path, PathBuf};

/// The line of `SUMMARY.md` in whose place the reference's contents come.
pub const REFERENCE: &str = "<!-- the generated reference -->";

/// Builds the book into `out`, which is emptied first.
///
/// # Errors
/// A sentence for each thing that is wrong: a formula, a page that is not in the summary, a link that leads nowhere.
pub fn build(out: &Path) -> Result<(), String> {
    build_from(folder(), out)
}

/// Builds the book whose settings, pages and style are in `folder`.
///
/// # Errors
/// As [`build`].
pub fn build_from(folder: &Path, out: &Path) -> Result<(), String> {
    let work = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = work.path();
    copy(folder, root, Path::new("pages"))?;
    copy(folder, root, Path::new("style"))?;
    reference(&root.join("pages"))?;
    every_page_is_in_the_summary(&root.join("pages"))?;
    formulas(&root.join("pages"))?;

    let words = |error: mdbook_driver::errors::Error| format!("{error:#}");
    let mut config = Config::from_disk(folder.join("book.toml")).map_err(words)?;
    config.build.build_dir = std::path::absolute(out).map_err(|error| error.to_string())?;
    let book = MDBook::load_with_config(root, config).map_err(words)?;
    book.build().map_err(words)?;

    let broken = links::broken(out).map_err(|error| error.to_string())?;
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
}

/// Writes the pages of the reference into `pages/reference` and puts its contents into the summary.
fn reference(pages: &Path) -> Result<(), String> {
    let summary = pages.join("SUMMARY.md");
    let text = read(&summary)?;
    if !text.contains(REFERENCE) {
        return Err(format!("SUMMARY.md: there is no line {REFERENCE:?}"));
    }
    let folder = pages.join("reference");
    extensor_cli::reference::write_book(&folder)?;
    // Its own summary has paths from its own folder.
    let contents = read(&folder.join("SUMMARY.md"))?.replace("](", "](reference/");
    std::fs::remove_file(folder.join("SUMMARY.md")).map_err(|error| error.to_string())?;
    write(&summary, &text.replace(REFERENCE, &contents))
}

/// Typesets the formulas of all pages.
fn formulas(pages: &Path) -> Result<(), String> {
    let mut wrong = Vec::new();
    for path in markdown(pages)?.iter().filter(|path| !path.ends_with("SUMMARY.md")) {
        match math::typeset(&read(path)?) {
            Ok(page) => write(path, &page)?,
            Err(error) => wrong.push(format!("{}:{error}", relative(path, pages))),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A page that the summary does not name would be left out without a word.
fn every_page_is_in_the_summary(pages: &Path) -> Result<(), String> {
    let summary = read(&pages.join("SUMMARY.md"))?;
    let missing: Vec<String> = markdown(pages)?
        .iter()
        .map(|path| relative(path, pages))
        .filter(|page| page != "SUMMARY.md" && !summary.contains(&format!("({page})")))
        .map(|page| format!("SUMMARY.md: {page} is not in it"))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
}

fn markdown(pages: &Path) -> Result<Vec<PathBuf>, String> {
    files(pages, ".md").map_err(|error| error.to_string())
}

fn relative(path: &Path, pages: &Path) -> String {
    path.strip_prefix(pages).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn copy(from: &Path, to: &Path, part: &Path) -> Result<(), String> {
    for path in files(&from.join(part), "").map_err(|error| error.to_string())? {
        let target = to.join(path.strip_prefix(from).unwrap_or(&path));
        let parent = target.parent().unwrap_or(to);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::copy(&path, &target))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
