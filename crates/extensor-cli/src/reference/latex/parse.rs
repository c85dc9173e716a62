//! Signs to LaTeX: fractions, powers, roots, sums, brackets.

use super::token::{Token, tokens};
use extensor::ops::record::Record;

/// A part of a line, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// A product, a quotient, one factor.
    Term(String),
    /// `+`, `=`, `<` and the like.
    Operator(String),
    Comma,
    /// A word of a sentence.
    Word(String),
}

/// Functions with a command of their own in LaTeX; others are set upright.
const COMMANDS: [&str; 13] = [
    "ln", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "max",
    "min",
];
const FUNCTIONS: [&str; 10] =
    ["sign", "erf", "erfc", "arsinh", "arcosh", "artanh", "softmax", "mean", "variance", "conv2d"];
const GREEK: [(&str, &str); 5] = [
    ("alpha", "\\alpha"),
    ("beta", "\\beta"),
    ("gamma", "\\gamma"),
    ("delta", "\\delta"),
    ("eps", "\\varepsilon"),
];
/// Names of things in formulas that are no arguments.
const THINGS: [&str; 3] = ["ddof", "shift", "NaN"];

pub(super) struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    record: &'a Record,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &str, record: &'a Record) -> Result<Parser<'a>, String> {
        Ok(Parser { tokens: tokens(text)?, at: 0, record })
    }

    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn sign(&self, ahead: usize) -> &str {
        match self.peek(ahead) {
            Some(Token::Sign(sign)) => sign,
            _ => "",
        }
    }

    fn fail<T>(&self, expected: &str) -> Result<T, String> {
        Err(format!(
            "{}: expected {expected} at sign {} of {:?}",
            self.record.name, self.at, self.tokens
        ))
    }

    fn is_argument(&self, name: &str) -> bool {
        let record = self.record;
        record.params.iter().any(|p| p.name == name) || record.inputs.iter().any(|i| i.name == name)
    }

    /// Whether this name belongs into a formula; otherwise it is a word.
    fn is_math(&self, name: &str, next: Option<&Token>) -> bool {
        let called = matches!(next, Some(Token::Sign(s)) if s == "(" || s == "[");
        let mut letters = name.chars();
        let first = letters.next().unwrap_or(' ');
        if name == "a" {
            return self.is_argument("a");
        }
        if letters.all(|c| c.is_ascii_digit()) {
            // A letter and not a word: I₀ is a function.
            return first != 'I' || matches!(next, Some(Token::Subscript(_)));
        }
        if COMMANDS.contains(&name) || FUNCTIONS.contains(&name) || THINGS.contains(&name) {
            return name != "NaN" || called;
        }
        GREEK.iter().any(|(greek, _)| *greek == name) || self.is_argument(name)
    }

    /// Whether an argument's name stands in the middle of a sentence, where it is a word.
    fn within_words(&self) -> bool {
        let long = |token: Option<&Token>| matches!(token, Some(Token::Name(name)) if !self.is_math(name, None));
        let before = self.at.checked_sub(2).and_then(|i| self.tokens.get(i));
        let spaced = self.peek(1).is_none() || self.peek(1) == Some(&Token::Space);
        long(before) && spaced && (self.peek(2).is_none() || long(self.peek(2)))
    }

    /// The items up to this closing sign, or to the end.
    pub(super) fn items(&mut self, close: Option<&str>) -> Result<Vec<Item>, String> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let sign = self.sign(0).to_string();
            match self.peek(0) {
                None if close.is_none() => return Ok(items),
                None => return self.fail(close.unwrap_or("the end")),
                Some(Token::Space) => self.at += 1,
                Some(Token::Sign(_)) if Some(sign.as_str()) == close => {
                    self.at += 1;
                    return Ok(items);
                }
                Some(Token::Sign(_)) if sign == "," => {
                    self.at += 1;
                    items.push(Item::Comma);
                }
                Some(Token::Sign(_))
                    if sign == "/" && matches!(items.last(), Some(Item::Term(_))) =>
                {
                    self.at += 1;
                    self.space();
                    let below = self.product()?;
                    if let Some(Item::Term(above)) = items.pop() {
                        items.push(Item::Term(fraction(&above, &below)));
                    }
                }
                Some(Token::Sign(_)) if operator(&sign).is_some() && !self.opens_bars(&items) => {
                    self.at += 1;
                    items.push(Item::Operator(operator(&sign).unwrap_or_default().to_string()));
                }
                Some(Token::Name(name))
                    if !self.is_math(name, self.peek(1))
                        || (name.len() > 1 && self.within_words()) =>
                {
                    let mut word = name.clone();
                    self.at += 1;
                    while matches!(self.sign(0), ":" | "'") {
                        word.push_str(self.sign(0));
                        self.at += 1;
                    }
                    if self.sign(0) == "," && matches!(self.peek(1), Some(Token::Space) | None) {
                        word.push(',');
                        self.at += 1;
                    }
                    items.push(Item::Word(word));
                }
                Some(_) => {
                    let term = self.product()?;
                    items.push(Item::Term(term));
                }
            }
        }
    }

    /// Whether a bar begins an absolute value: it does where a term may.
    fn opens_bars(&self, items: &[Item]) -> bool {
        self.sign(0) == "|"
            && !(matches!(items.last(), Some(Item::Term(_))) && self.peek(1) == Some(&Token::Space))
    }

    fn space(&mut self) {
        if self.peek(0) == Some(&Token::Space) {
            self.at += 1;
        }
    }

    /// Whether a factor begins so many signs ahead.
    fn begins_factor(&self, ahead: usize) -> bool {
        match self.peek(ahead) {
            Some(Token::Name(name)) => self.is_math(name, self.peek(ahead + 1)),
            Some(Token::Symbol(_) | Token::Hat(_) | Token::Number(_)) => true,
            Some(Token::Sign(sign)) => "([⌊⌈√Σ∏½…".contains(sign.as_str()),
            _ => false,
        }
    }

    /// Factors that stand close together or are joined by a dot, and what they are divided by.
    fn product(&mut self) -> Result<String, String> {
        let mut made = self.factor()?;
        loop {
            let spaced = self.peek(0) == Some(&Token::Space);
            let ahead = usize::from(spaced);
            if let dot @ ("·" | "∘") = self.sign(ahead) {
                let dot = if dot == "·" { "\\cdot" } else { "\\circ" };
                self.at += ahead + 1;
                self.space();
                let next = self.factor()?;
                made = format!("{made} {dot} {next}");
            } else if !spaced && self.sign(0) == "/" {
                self.at += 1;
                let below = self.factor()?;
                made = fraction(&made, &below);
            } else if !spaced && self.begins_factor(0) {
                let next = self.factor()?;
                made = format!("{made} {next}");
            } else {
                return Ok(made);
            }
        }
    }

    fn factor(&mut self) -> Result<String, String> {
        let mut made = self.atom()?;
        let mut primes = String::new();
        loop {
            match self.peek(0) {
                Some(Token::Prime) => {
                    self.at += 1;
                    primes.push('\'');
                }
                Some(Token::Superscript(power)) => {
                    made = format!("{made}^{{{}}}", power.replace("\\top", "\\top "));
                    self.at += 1;
                }
                Some(Token::Subscript(index)) => {
                    made = format!("{made}_{{{index}}}");
                    self.at += 1;
                }
                Some(Token::Sign(sign)) if sign == "^" && self.peek(1) != Some(&Token::Space) => {
                    self.at += 1;
                    let power = if self.sign(0) == "−" {
                        self.at += 1;
                        format!("-{}", self.factor()?)
                    } else {
                        self.factor()?
                    };
                    made = format!("{made}^{{{}}}", unwrapped(&power));
                }
                Some(Token::Sign(sign)) if sign == "[" => {
                    self.at += 1;
                    let inner = self.items(Some("]"))?;
                    made = format!("{made}[{}]", latex(&inner));
                }
                _ => return Ok(made + &primes),
            }
        }
    }

    fn atom(&mut self) -> Result<String, String> {
        let Some(token) = self.peek(0).cloned() else { return self.fail("a factor") };
        self.at += 1;
        match token {
            Token::Number(number) => Ok(number),
            Token::Symbol(latex) => Ok(latex.to_string()),
            Token::Hat(letter) => Ok(format!("\\hat{{{letter}}}")),
            Token::Name(name) => self.name(&name),
            Token::Sign(sign) => self.bracket(&sign),
            _ => self.fail("a factor"),
        }
    }

    fn name(&mut self, name: &str) -> Result<String, String> {
        // `gγ` is g with an index.
        if name == "g"
            && let Some(Token::Symbol("\\gamma")) = self.peek(0)
        {
            self.at += 1;
            return Ok("g_{\\gamma}".into());
        }
        let called = self.sign(0) == "(";
        let argument = self.record.params.iter().any(|p| p.name == name) && !called;
        if !argument && (COMMANDS.contains(&name) || FUNCTIONS.contains(&name)) {
            let mut made = if COMMANDS.contains(&name) {
                format!("\\{name}")
            } else {
                format!("\\operatorname{{{name}}}")
            };
            if let Some(Token::Subscript(index)) = self.peek(0) {
                made = format!("{made}_{{{index}}}");
                self.at += 1;
            }
            // What it is applied to, without brackets.
            if self.peek(0) == Some(&Token::Space) && self.begins_factor(1) {
                self.at += 1;
                made = format!("{made} {}", self.factor()?);
            }
            return Ok(made);
        }
        if let Some((_, greek)) = GREEK.iter().find(|(known, _)| *known == name) {
            return Ok((*greek).to_string());
        }
        let mut letters = name.chars();
        let first = letters.next().unwrap_or(' ');
        let rest = letters.as_str();
        if rest.is_empty() {
            return Ok(name.to_string());
        }
        if rest.chars().all(|c| c.is_ascii_digit()) {
            return Ok(format!("{first}_{{{rest}}}"));
        }
        Ok(format!("\\mathrm{{{}}}", name.replace('_', "\\_")))
    }

    fn bracket(&mut self, sign: &str) -> Result<String, String> {
        let (open, close, left, right) = match sign {
            "(" => ("(", ")", "(", ")"),
            "[" => ("[", "]", "[", "]"),
            "|" => ("|", "|", "\\lvert ", "\\rvert "),
            "⌊" => ("⌊", "⌋", "\\lfloor ", "\\rfloor "),
            "⌈" => ("⌈", "⌉", "\\lceil ", "\\rceil "),
            "√" => return Ok(format!("\\sqrt{{{}}}", unwrapped(&self.factor()?))),
            "½" => return Ok("\\tfrac{1}{2}".into()),
            "…" => return Ok("\\dots".into()),
            "±" => return Ok(format!("\\pm {}", self.factor()?)),
            "~" => return Ok(format!("{{\\sim}} {}", self.factor()?)),
            "Σ" | "∏" => {
                let mut made = if sign == "Σ" { "\\sum" } else { "\\prod" }.to_string();
                if let Some(Token::Subscript(index)) = self.peek(0) {
                    made = format!("{made}_{{{index}}}");
                    self.at += 1;
                }
                let ahead = usize::from(self.peek(0) == Some(&Token::Space));
                if self.begins_factor(ahead) || self.sign(ahead) == "|" {
                    self.at += ahead;
                    made = format!("{made} {}", self.product()?);
                }
                return Ok(made);
            }
            _ => return self.fail("a factor"),
        };
        debug_assert_eq!(open, sign);
        let inner = latex(&self.items(Some(close))?);
        let tall = ["\\frac", "\\sum", "\\sqrt", "\\prod"].iter().any(|high| inner.contains(high));
        let named = |side: &str| side.trim().to_string();
        Ok(if tall {
            format!("\\left{} {inner} \\right{}", named(left), named(right))
        } else {
            format!("{left}{inner}{right}")
        })
    }
}

fn operator(sign: &str) -> Option<&'static str> {
    Some(match sign {
        "=" | "==" => "=",
        ":" => ":",
        "!=" | "≠" => "\\ne",
        "<" => "<",
        ">" => ">",
        "<=" => "\\le",
        ">=" => "\\ge",
        "+" => "+",
        "−" => "-",
        "+=" => "+=",
        "&" => "\\,\\&\\,",
        "|" => "\\,\\vert\\,",
        "^" => "\\oplus",
        "<<" => "\\ll",
        ">>" => "\\gg",
        _ => return None,
    })
}

/// Without brackets around all of it.
fn unwrapped(term: &str) -> &str {
    for (left, right) in [("\\left( ", " \\right)"), ("(", ")")] {
        if let Some(inner) = term.strip_prefix(left).and_then(|t| t.strip_suffix(right)) {
            let mut depth = 0;
            let closed_within = inner.chars().any(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth < 0
            });
            if !closed_within {
                return inner.trim();
            }
        }
    }
    term
}

fn fraction(above: &str, below: &str) -> String {
    format!("\\frac{{{}}}{{{}}}", unwrapped(above), unwrapped(below))
}

/// Items in one formula.
pub(super) fn latex(items: &[Item]) -> String {
    let mut made = String::new();
    let mut at = 0;
    while at < items.len() {
        match &items[at] {
            Item::Term(term) => {
                if !made.is_empty() && !made.ends_with(' ') {
                    made.push_str("\\, ");
                }
                made.push_str(term);
            }
            Item::Operator(sign) => {
                let apart = if made.is_empty() || made.ends_with(' ') { "" } else { " " };
                made.push_str(&format!("{apart}{sign} "));
            }
            Item::Comma => made.push_str(", "),
            Item::Word(_) => {
                let end = (at..items.len()).find(|&i| !matches!(items[i], Item::Word(_)));
                let end = end.unwrap_or(items.len());
                let words = items[at..end].iter().map(|item| match item {
                    Item::Word(word) => word.replace('_', "\\_"),
                    _ => String::new(),
                });
                let words = words.collect::<Vec<_>>().join(" ");
                let before = if at == 0 { "" } else { " " };
                let after = if end == items.len() { "" } else { " " };
                made = made.trim_end().to_string();
                made.push_str(&format!("\\text{{{before}{words}{after}}} "));
                at = end;
                continue;
            }
        }
        at += 1;
    }
    made.trim_end().to_string()
}
