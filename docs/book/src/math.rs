//! Formulas: `$…$` and `$$…$$` in LaTeX become MathML, which browsers typeset by themselves, without a script.

use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};
use pulldown_cmark::{Event, Options, Parser};

/// The page with its formulas as MathML; what stands in code is left alone.
///
/// # Errors
/// A sentence that begins with the line of a formula which does not parse.
pub fn typeset(page: &str) -> Result<String, String> {
    let converter = LatexToMathML::new(MathCoreConfig::default())
        .map_err(|(error, ..)| error.error_message())?;
    // What mdBook's own parser recognises, and formulas.
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES
        | Options::ENABLE_DEFINITION_LIST
        | Options::ENABLE_GFM
        | Options::ENABLE_MATH;
    let mut typeset = String::with_capacity(2 * page.len());
    let mut done = 0;
    for (event, range) in Parser::new_ext(page, options).into_offset_iter() {
        let (latex, display) = match &event {
            Event::InlineMath(latex) => (latex, MathDisplay::Inline),
            Event::DisplayMath(latex) => (latex, MathDisplay::Block),
            _ => continue,
        };
        let formula = converter.convert_with_local_counter(latex, display).map_err(|error| {
            let line = page[..range.start].lines().count().max(1);
            format!("{line}: the formula {latex:?} does not parse: {}", error.error_message())
        })?;
        typeset.push_str(&page[done..range.start]);
        typeset.push_str(&shielded(&formula));
        done = range.end;
    }
    typeset.push_str(&page[done..]);
    Ok(typeset)
}

/// MathML in one line whose text Markdown does not take for its own: every sign of punctuation outside the tags is written
/// by its number.
fn shielded(mathml: &str) -> String {
    let mut shielded = String::with_capacity(mathml.len());
    let (mut tag, mut entity) = (false, false);
    for c in mathml.chars() {
        match c {
            '<' => tag = true,
            '&' if !tag => entity = true,
            _ => {}
        }
        match c {
            '\n' => shielded.push(' '),
            _ if tag || entity || !c.is_ascii_punctuation() => shielded.push(c),
            _ => shielded.push_str(&format!("&#{};", u32::from(c))),
        }
        match c {
            '>' => tag = false,
            ';' => entity = false,
            _ => {}
        }
    }
    shielded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_mathml_and_code_stays() {
        let page = "The sum $a_1 + b$ and\n\n$$\\frac{a}{b}$$\n\n`$x$`\n\n```text\n$y$\n```\n";
        let typeset = typeset(page).unwrap();
        assert!(typeset.contains("<msub><mi>a</mi><mn>1</mn></msub>"), "{typeset}");
        assert!(typeset.contains("<mfrac><mi>a</mi><mi>b</mi></mfrac>"), "{typeset}");
        assert!(typeset.contains("`$x$`") && typeset.contains("\n$y$\n"), "{typeset}");
    }

    #[test]
    fn a_formula_that_does_not_parse_is_an_error_with_its_line() {
        let error = typeset("# Title\n\nA text.\nAnd $\\nosuchthing{x}$.\n").unwrap_err();
        assert!(error.starts_with("4: "), "{error}");
    }
}
