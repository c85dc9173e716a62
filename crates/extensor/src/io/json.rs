//! The little of JSON that a safetensors header is made of: objects, strings, whole numbers, lists
//! of those.
//!
//! It never goes deeper than its caller asks, and must not know what the names mean.

use std::fmt::Write;

/// What is wrong, and at which byte.
pub(super) type Parsed<T> = Result<T, String>;

/// Reads a text from its beginning.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|b| b" \t\r\n".contains(b)) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn fail<T>(&self, expected: &str) -> Parsed<T> {
        let found = self.text[self.at..].chars().next();
        let found = found.map_or("its end".into(), |c| format!("{c:?}"));
        Err(format!("the header has {found} at byte {}, expected {expected}", self.at))
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.skip(byte) { Ok(()) } else { self.fail(&format!("{:?}", char::from(byte))) }
    }

    /// Nothing but spaces must follow.
    pub fn end(&mut self) -> Parsed<()> {
        if self.peek().is_none() { Ok(()) } else { self.fail("its end") }
    }

    /// An object; `f` reads the value of each name. The error may be of the caller's own kind.
    pub fn object<E: From<String>>(
        &mut self,
        mut f: impl FnMut(&mut Self, String) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{')?;
        if self.skip(b'}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            f(self, name)?;
            if !self.skip(b',') {
                return Ok(self.expect(b'}')?);
            }
        }
    }

    /// A list of whole numbers.
    pub fn numbers(&mut self) -> Parsed<Vec<u64>> {
        self.expect(b'[')?;
        let mut all = Vec::new();
        if self.skip(b']') {
            return Ok(all);
        }
        loop {
            all.push(self.number()?);
            if !self.skip(b',') {
                return self.expect(b']').map(|()| all);
            }
        }
    }

    fn number(&mut self) -> Parsed<u64> {
        self.peek();
        let rest = &self.text[self.at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let zeros = digits > 1 && rest.starts_with('0');
        let follows = rest.as_bytes().get(digits).is_some_and(|b| b".eE+-".contains(b));
        match rest[..digits].parse() {
            Ok(number) if !zeros && !follows => {
                self.at += digits;
                Ok(number)
            }
            _ => self.fail("a whole number below 2^64"),
        }
    }

    pub fn string(&mut self) -> Parsed<String> {
        self.expect(b'"')?;
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                self.at = self.text.len();
                return self.fail("the end of a string");
            };
            value.push_str(&rest[..plain]);
            self.at += plain;
            match rest.as_bytes()[plain] {
                b'"' => {
                    self.at += 1;
                    return Ok(value);
                }
                b'\\' => value.push(self.escaped()?),
                _ => return self.fail("no control character in a string"),
            }
        }
    }

    fn escaped(&mut self) -> Parsed<char> {
        let c = match self.text.as_bytes().get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return self.fail("an escaped character"),
        };
        self.at += 2;
        Ok(c)
    }

    /// `\uXXXX`, or two of them for characters beyond 16 bits.
    fn unicode(&mut self) -> Parsed<char> {
        let unit = |at: usize| -> Option<u32> {
            let part = self.text.get(at..at + 6)?;
            let digits = part.strip_prefix("\\u")?;
            let all_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
            all_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        let (value, length) = match (unit(self.at), unit(self.at + 6)) {
            (Some(high @ 0xD800..0xDC00), Some(low @ 0xDC00..0xE000)) => {
                (0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), 12)
            }
            (Some(value), _) => (value, 6),
            (None, _) => return self.fail("four hexadecimal digits"),
        };
        let Some(c) = char::from_u32(value) else {
            return self.fail("a whole pair of surrogates");
        };
        self.at += length;
        Ok(c)
    }
}

/// Appends a string with its quotes.
pub(super) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
