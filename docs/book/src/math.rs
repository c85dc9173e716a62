//! Formulas: `$…$` and `$$…$$` in LaTeX become MathML, which browsers typeset by themselves, without a script.

use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};
use pulldown_cmark::{Event, Options, Parser};

/// What LaTeX has and the converter has not, put into words of its own.
const MACROS: [(&str, &str); 2] =
    [("mathrel", r"\;{#1}\;"), ("substack", r"\begin{matrix}#1\end{matrix}")];

/// The page with its formulas as MathML; what stands in code is left alone.
///
/// # Errors
/// A sentence that begins with the line of a formula which does not parse.
pub fn typeset(page: &str) -> Result<String, String> {
    let macros = MACROS.map(|(name, meaning)| (name.to_string(), meaning.to_string())).to_vec();
    let converter = LatexToMathML::new(MathCoreConfig { macros, ..MathCoreConfig::default() })
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
        // The converter has no boxes; a whole formula's is drawn by the style.
        let inner = latex.trim().strip_prefix(r"\boxed{").and_then(|rest| rest.strip_suffix('}'));
        let source = inner.unwrap_or(latex);
        let formula = converter.convert_with_local_counter(source, display).map_err(|error| {
            let line = page[..range.start].matches('\n').count() + 1;
            format!("{line}: the formula {:?} does not parse: {}", &**latex, error.error_message())
        })?;
        typeset.push_str(&page[done..range.start]);
        // Chromium draws what is marked as an accent into the letter below it.
        let formula = shielded(&primes(formula.replace(" accent=\"true\"", "")));
        // A formula of its own that is too wide for a screen scrolls in a box.
        typeset.push_str(&match (display, inner) {
            (MathDisplay::Inline, _) => formula,
            (MathDisplay::Block, None) => format!("<span class=\"formula\">{formula}</span>"),
            (MathDisplay::Block, Some(_)) => {
                format!("<span class=\"formula boxed\">{formula}</span>")
            }
        });
        done = range.end;
    }
    typeset.push_str(&page[done..]);
    Ok(typeset)
}

/// The formula with primes beside their letters: the sign is raised already, and as a superscript it would be twice.
fn primes(mut mathml: String) -> String {
    for prime in ["′", "″", "‴", "⁗"] {
        let raised = format!("<mo>{prime}</mo></msup>");
        while let Some(end) = mathml.find(&raised) {
            // What it is the superscript of begins where as many were opened as are closed up to here.
            let before = mathml[..end].rmatch_indices("<msup>").map(|(at, _)| at);
            let opened = |at: &usize| {
                let count = |tag: &str| mathml[*at..end].matches(tag).count();
                count("<msup>") == count("</msup>") + 1
            };
            let Some(start) = before.into_iter().find(opened) else { break };
            let beside = format!("<mo lspace=\"0\" rspace=\"0\">{prime}</mo></mrow>");
            mathml.replace_range(end..end + raised.len(), &beside);
            mathml.replace_range(start..start + "<msup>".len(), "<mrow>");
        }
    }
    mathml
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
    fn a_prime_stands_beside_its_letter() {
        let typeset = typeset("$y' + x^{2}$, $(a^2 + b'')'$").unwrap();
        assert!(
            typeset.contains("<mrow><mi>y</mi><mo lspace=\"0\" rspace=\"0\">′</mo></mrow>"),
            "{typeset}"
        );
        assert!(typeset.contains("<msup><mi>x</mi><mn>2</mn></msup>"), "{typeset}");
        assert!(typeset.contains("<msup><mi>a</mi><mn>2</mn></msup>"), "{typeset}");
        assert!(typeset.contains("″</mo></mrow>"), "{typeset}");
        assert_eq!(typeset.matches("<msup>").count(), typeset.matches("</msup>").count());
    }

    #[test]
    fn a_formula_that_does_not_parse_is_an_error_with_its_line() {
        let error = typeset("# Title\n\nA text.\nAnd $\\nosuchthing{x}$.\n").unwrap_err();
        assert!(error.starts_with("4: "), "{error}");
    }
}
