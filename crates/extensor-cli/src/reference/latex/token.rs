//! The signs of the notation.

/// A sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Space,
    /// Letters and what follows them in a name: `x`, `ln`, `label_smoothing`, `x0`.
    Name(String),
    /// A letter that is not Latin, as LaTeX.
    Symbol(&'static str),
    /// A letter with a circumflex.
    Hat(char),
    Number(String),
    Superscript(String),
    Subscript(String),
    Prime,
    /// Anything else, as it stands: `(`, `<=`, `·`.
    Sign(String),
}

const SUPERSCRIPTS: [(char, &str); 21] = [
    ('⁰', "0"),
    ('¹', "1"),
    ('²', "2"),
    ('³', "3"),
    ('⁴', "4"),
    ('⁵', "5"),
    ('⁶', "6"),
    ('⁷', "7"),
    ('⁸', "8"),
    ('⁹', "9"),
    ('⁺', "+"),
    ('⁻', "-"),
    ('ⁿ', "n"),
    ('ˣ', "x"),
    ('ᵃ', "a"),
    ('ᵇ', "b"),
    ('ⁱ', "i"),
    ('ᵗ', "t"),
    ('⁽', "("),
    ('⁾', ")"),
    ('ᵀ', "\\top"),
];
const SUBSCRIPTS: [(char, &str); 14] = [
    ('₀', "0"),
    ('₁', "1"),
    ('₂', "2"),
    ('₃', "3"),
    ('₄', "4"),
    ('₅', "5"),
    ('₆', "6"),
    ('₇', "7"),
    ('₈', "8"),
    ('₉', "9"),
    ('ᵢ', "i"),
    ('ⱼ', "j"),
    ('ₖ', "k"),
    ('ₙ', "n"),
];
const SYMBOLS: [(char, &str); 11] = [
    ('α', "\\alpha"),
    ('γ', "\\gamma"),
    ('Γ', "\\Gamma"),
    ('ψ', "\\psi"),
    ('λ', "\\lambda"),
    ('π', "\\pi"),
    ('σ', "\\sigma"),
    ('ω', "\\omega"),
    ('Φ', "\\Phi"),
    ('ε', "\\varepsilon"),
    ('∞', "\\infty"),
];
/// Signs of more than one character, the longer first.
const LONG: [&str; 7] = ["<=", ">=", "==", "!=", "+=", "<<", ">>"];
const SINGLE: &str = "=<>≠+−·∘/^~&|()[]⌊⌋⌈⌉√Σ∏½±…,:'";

fn find(table: &[(char, &'static str)], c: char) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == c).map(|(_, latex)| *latex)
}

/// Cuts a line into its signs.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let letters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(&c) = letters.get(at) {
        let run = |table: &[(char, &'static str)]| -> (String, usize) {
            let found = letters[at..].iter().map_while(|&c| find(table, c));
            let found: Vec<&str> = found.collect();
            (found.concat(), found.len())
        };
        if c == ' ' {
            if tokens.last() != Some(&Token::Space) {
                tokens.push(Token::Space);
            }
            at += 1;
        } else if c.is_ascii_alphabetic() && letters.get(at + 1) == Some(&'\u{302}') {
            tokens.push(Token::Hat(c));
            at += 2;
        } else if c.is_ascii_alphabetic() {
            let hat = |i: usize| letters.get(i + 1) == Some(&'\u{302}');
            let name: String = (at..letters.len())
                .take_while(|&i| {
                    let c = letters[i];
                    (c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '\''))
                        && !(i > at && hat(i))
                })
                .map(|i| letters[i])
                .collect();
            let name = name.trim_end_matches('-').to_string();
            at += name.chars().count();
            tokens.push(Token::Name(name));
        } else if c.is_ascii_digit() {
            let digits = letters[at..].iter().take_while(|c| c.is_ascii_digit() || **c == '.');
            let number: String = digits.collect();
            at += number.len();
            tokens.push(Token::Number(number));
        } else if find(&SUPERSCRIPTS, c).is_some() {
            let (text, length) = run(&SUPERSCRIPTS);
            tokens.push(Token::Superscript(text));
            at += length;
        } else if find(&SUBSCRIPTS, c).is_some() {
            let (text, length) = run(&SUBSCRIPTS);
            tokens.push(Token::Subscript(text));
            at += length;
        } else if let Some(latex) = find(&SYMBOLS, c) {
            tokens.push(Token::Symbol(latex));
            at += 1;
        } else if c == '′' {
            tokens.push(Token::Prime);
            at += 1;
        } else if let Some(long) =
            LONG.iter().find(|long| text_at(&letters, at).starts_with(**long))
        {
            tokens.push(Token::Sign((*long).to_string()));
            at += long.chars().count();
        } else if SINGLE.contains(c) {
            tokens.push(Token::Sign(c.to_string()));
            at += 1;
        } else {
            return Err(format!("{c:?} is not in the notation of formulas: {text:?}"));
        }
    }
    Ok(tokens)
}

fn text_at(letters: &[char], at: usize) -> String {
    letters[at..].iter().take(2).collect()
}
