//! Links of the built book: every one within it leads to a page and a place on it, and nothing is loaded from a network.

use crate::files;
use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

/// A sentence for each link of the pages below `book` that leads nowhere, and for each thing that would be loaded from a
/// network.
///
/// # Errors
/// A file cannot be read.
pub fn broken(book: &Path) -> std::io::Result<Vec<String>> {
    let mut pages = HashMap::new();
    for path in files(book, ".html")? {
        let page = Page::read(&std::fs::read_to_string(&path)?);
        pages.insert(normal(&path), page);
    }
    let mut broken = Vec::new();
    for (path, page) in &pages {
        let name = path.strip_prefix(normal(book)).unwrap_or(path).display();
        for link in &page.loads {
            if is_external(link) {
                broken.push(format!("{name}: {link} would be loaded from a network"));
            }
        }
        for link in page.links.iter().chain(&page.loads) {
            if !is_external(link)
                && let Some(problem) = problem(book, path, link, &pages)
            {
                broken.push(format!("{name}: the link {link:?} {problem}"));
            }
        }
    }
    for path in files(book, ".css")? {
        let style = std::fs::read_to_string(&path)?;
        for link in loaded_by_style(&style).filter(|link| is_external(link)) {
            broken.push(format!("{}: {link} would be loaded from a network", path.display()));
        }
    }
    broken.sort();
    broken.dedup();
    Ok(broken)
}

/// What a style sheet loads: `url(…)` and `@import "…"`. Pictures that it contains are not loaded.
fn loaded_by_style(style: &str) -> impl Iterator<Item = &str> {
    let named = |text: &'static str| style.split(text).skip(1);
    let link = |text: &str| text.trim_start().trim_start_matches(['"', '\'']).len();
    named("url(")
        .chain(named("@import"))
        .map(move |text| &text[text.len() - link(text)..])
        .map(|text| text.split(['"', '\'', ')', ';']).next().unwrap_or(""))
        .filter(|link| !link.starts_with("data:"))
}

fn is_external(link: &str) -> bool {
    let scheme = link.split(['/', '?', '#']).next().unwrap_or("");
    link.starts_with("//") || scheme.contains(':')
}

/// Why a link from `page` leads nowhere, if it does.
fn problem(
    book: &Path,
    page: &Path,
    link: &str,
    pages: &HashMap<PathBuf, Page>,
) -> Option<&'static str> {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = target.split('?').next().unwrap_or("");
    let path = match target {
        "" => page.to_path_buf(),
        _ if target.starts_with('/') => normal(&book.join(target.trim_start_matches('/'))),
        _ => normal(&page.parent().unwrap_or(book).join(decoded(target))),
    };
    let path = if path.is_dir() { path.join("index.html") } else { path };
    if !path.is_file() {
        return Some("leads to no file");
    }
    let known = |page: &Page| page.anchors.contains(&decoded(anchor));
    match pages.get(&path) {
        Some(page) if !anchor.is_empty() && !known(page) => {
            Some("leads to no such place on the page")
        }
        _ => None,
    }
}

/// What a page of HTML refers to, and the places on it that can be referred to.
struct Page {
    links: Vec<String>,
    loads: Vec<String>,
    anchors: HashSet<String>,
}

impl Page {
    fn read(html: &str) -> Page {
        let mut page = Page { links: Vec::new(), loads: Vec::new(), anchors: HashSet::new() };
        for (tag, attributes) in tags(html) {
            for (name, value) in attributes {
                match (tag.as_str(), name.as_str()) {
                    (_, "id") | ("a", "name") => drop(page.anchors.insert(value)),
                    ("a" | "area", "href") => page.links.push(value),
                    (_, "href" | "src" | "poster" | "xlink:href") => page.loads.push(value),
                    (_, "srcset") => page.loads.extend(
                        value
                            .split(',')
                            .filter_map(|part| part.split_whitespace().next())
                            .map(str::to_string),
                    ),
                    (_, "style") if value.contains("url(") => page.loads.push(value),
                    _ => {}
                }
            }
        }
        page
    }
}

/// The tags of a page with their attributes; what scripts and comments contain is not among them.
fn tags(html: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        if name.is_empty() {
            continue;
        }
        let (attributes, after) = attributes(&rest[name.len()..]);
        rest = after;
        if name == "script" || name == "style" {
            let end = format!("</{name}");
            rest = rest.find(&end).map_or("", |at| &rest[at..]);
        }
        tags.push((name.to_lowercase(), attributes));
    }
    tags
}

/// The attributes up to the tag's end, and what follows it.
fn attributes(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return (found, rest.get(1..).unwrap_or(""));
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=>/".contains(c)).unwrap_or(rest.len());
        let name = rest[..end.max(1)].to_lowercase();
        rest = rest[end.max(1)..].trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| "\"'".contains(*c));
            (value, rest) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => after.split_at(
                    after.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(after.len()),
                ),
            };
        }
        found.push((name, unescaped(value)));
    }
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#39;", "'").replace("&#x27;", "'").replace("&amp;", "&")
}

/// The text with `%20` and the like as what they stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            _ => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_nowhere_and_what_a_network_would_have_to_bring_is_found() {
        let book = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(book.path().join(name), text).unwrap();
        write(
            "a.html",
            r##"<h1 id="top">A</h1><a href="b.html#x">b</a> <a href="#top">up</a> <a href='b.html#y'>no place</a>
            <a href=c.html>no page</a> <img src="none.svg" alt=""> <img src="there.svg">
            <a href="https://example.org">a paper</a> <script src="https://cdn.example.org/a.js">"<a href='z'>"</script>
            <!-- <a href="d.html"> --> <link rel="stylesheet" href="//fonts.example.org/f.css">"##,
        );
        write("b.html", r#"<p ID="x">B <math><mi>x</mi></math></p>"#);
        write("there.svg", "");
        write(
            "s.css",
            "/* https://example.org */ a { background: url( 'https://example.org/x.png' ) }",
        );
        write(
            "t.css",
            "@import \"//example.org/y.css\"; a { background: url(data:image/png;base64,abcd) }",
        );
        let found = broken(book.path()).unwrap();
        let parts = ["b.html#y", "c.html", "none.svg", "a.js", "f.css", "x.png", "y.css"];
        assert_eq!(found.len(), parts.len(), "{found:#?}");
        for part in parts {
            assert!(found.iter().any(|sentence| sentence.contains(part)), "{part}: {found:#?}");
        }
    }
}
