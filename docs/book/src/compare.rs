//! Whether a program printed what the page says.

/// What is different between the output that a page shows and the real one, for whoever reads a failed test; nothing if they
/// agree. On the page `…` alone in a line stands for any lines, and `…` within a line for any text.
pub fn difference(shown: &str, real: &str) -> Option<String> {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_string()).collect()
    };
    let (shown, real) = (lines(shown), lines(real));
    let same = |shown: &String, real: &String| {
        let pieces: Vec<char> = shown.chars().collect();
        let text: Vec<char> = real.chars().collect();
        matches(&pieces, &text, &|c| *c == '…', &|a, b| a == b)
    };
    let agree = matches(&shown, &real, &|line| line.trim() == "…", &same);
    let block = |lines: &[String]| lines.join("\n");
    (!agree).then(|| {
        let at = shown.iter().zip(&real).take_while(|(shown, real)| same(shown, real)).count();
        format!(
            "the page shows\n{}\nbut the output is\n{}\nfirst different in line {}:\n- {}\n+ {}",
            block(&shown),
            block(&real),
            at + 1,
            shown.get(at).map_or("(nothing)", String::as_str),
            real.get(at).map_or("(nothing)", String::as_str),
        )
    })
}

/// Whether `items` are what `pattern` says, a gap in it standing for any number of them.
fn matches<T>(
    pattern: &[T],
    items: &[T],
    gap: &dyn Fn(&T) -> bool,
    same: &dyn Fn(&T, &T) -> bool,
) -> bool {
    // reached[i]: the pattern up to here may stand for the first i items.
    let mut reached = vec![false; items.len() + 1];
    reached[0] = true;
    for piece in pattern {
        let mut next = vec![false; items.len() + 1];
        if gap(piece) {
            let mut any = false;
            for i in 0..=items.len() {
                any |= reached[i];
                next[i] = any;
            }
        } else {
            for i in 0..items.len() {
                next[i + 1] = reached[i] && same(piece, &items[i]);
            }
        }
        reached = next;
    }
    reached[items.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stands_for_any_lines_or_any_text_and_for_nothing_else() {
        for (shown, real) in [
            ("a\nb", "a\nb\n"),
            ("a  \nb", "a\nb"),
            ("a\n…\nd", "a\nb\nc\nd"),
            ("a\n…\nd", "a\nd"),
            ("…", "a\nb"),
            ("took … ms", "took 12.5 ms"),
            ("… a … b", "x a y b"),
        ] {
            assert_eq!(difference(shown, real), None, "{shown:?} {real:?}");
        }
        for (shown, real) in [
            ("a\nb", "a\nc"),
            ("a", "a\nb"),
            ("a\nb", "a"),
            ("a\n…\nd", "a\nb\nc"),
            ("took … ms", "took 12.5 s"),
            ("", "a"),
        ] {
            assert!(difference(shown, real).is_some(), "{shown:?} {real:?}");
        }
    }
}
