//! The fenced blocks of a page. The build script reads this file too, so it uses nothing but the standard library.

/// A fenced block: what stands after the three backticks, and the lines up to the next three.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The line of the opening fence, counted from 1.
    pub line: usize,
    /// The language, such as `rust`.
    pub language: String,
    /// What follows the language, separated by commas, such as `should_fail`.
    pub attributes: Vec<String>,
    /// The lines between the fences.
    pub text: String,
}

impl Block {
    /// Whether it has this attribute.
    pub fn is(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|a| a == attribute)
    }
}

/// The blocks of a page in order.
///
/// # Errors
/// A sentence with the line of a fence that is not closed, or that is not written as the book's conventions say.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(page.lines()) {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        match blocks.last_mut().filter(|_| open) {
            Some(_) if line == "```" => open = false,
            Some(_) if fence => return Err(format!("{number}: a fence within a block")),
            Some(block) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            None if fence => {
                let Some(info) = line.strip_prefix("```") else {
                    return Err(format!(
                        "{number}: a fence is three backticks at the line's start"
                    ));
                };
                let mut words = info.split(',').map(|word| word.trim().to_string());
                blocks.push(Block {
                    line: number,
                    language: words.next().unwrap_or_default(),
                    attributes: words.collect(),
                    text: String::new(),
                });
                open = true;
            }
            None => {}
        }
    }
    match blocks.last().filter(|_| open) {
        Some(block) => Err(format!("{}: the block is not closed", block.line)),
        None => Ok(blocks),
    }
}

/// Each block but those of output, with the output that the page shows for it: the `text` block next after it.
pub fn with_output(blocks: &[Block]) -> Vec<(&Block, Option<&Block>)> {
    let next = |at: usize| blocks.get(at + 1).filter(|block| block.language == "text");
    (0..blocks.len())
        .filter(|&at| blocks[at].language != "text")
        .map(|at| (&blocks[at], next(at)))
        .collect()
}

/// A line of Rust without what hides it on the page: `# ` at its start, or `#` alone; `##` is a `#` that is shown.
pub fn unhidden(line: &str) -> String {
    let code = line.trim_start();
    let indent = &line[..line.len() - code.len()];
    match code.strip_prefix('#') {
        Some(rest) if rest.is_empty() || rest.starts_with('#') => format!("{indent}{rest}"),
        Some(rest) if rest.starts_with(' ') => format!("{indent}{}", &rest[1..]),
        _ => line.to_string(),
    }
}

/// The code in a column of a page's tables: the line of a row, and what stands between single backticks in its cell below the
/// heading `column`, such as `Rust`.
pub fn cells(page: &str, column: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut at, mut fenced) = (None, false);
    for (number, line) in (1..).zip(page.lines()) {
        fenced ^= line.starts_with("```");
        if fenced || !line.starts_with('|') {
            at = None;
            continue;
        }
        // A bar that does not end a cell is written `\|`.
        let hidden = line.replace("\\|", "\u{0}");
        let cells: Vec<&str> = hidden.trim_matches('|').split('|').map(str::trim).collect();
        match at {
            None => at = Some(cells.iter().position(|cell| *cell == column)),
            Some(Some(at)) => {
                let code = cells.get(at).unwrap_or(&"").split('`').skip(1).step_by(2);
                found.extend(code.map(|code| (number, code.replace('\u{0}', "|"))));
            }
            Some(None) => {}
        }
    }
    found
}
