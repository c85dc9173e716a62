//! Where the functions of the operations are: their signatures, their documentation, file and line,
//! written down by the compiler.
//!
//! `#[method]` and `#[noted]` implement [`Noted`] for the [`Name`] of the function below them; the
//! catalogue asks for it by the name that a record has. So the reference has no list of its own.

use super::record::Record;

/// A function in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// `pub fn exp(x: &Tensor) -> Result<Tensor>`.
    pub signature: &'static str,
    /// Its documentation, with its example, as it is written.
    pub documentation: &'static str,
    /// The file, as the compiler was given it.
    pub file: &'static str,
    /// The line at which it, or the block that makes it, begins.
    pub line: u32,
}

impl Source {
    /// The file's path within the repository.
    ///
    /// ```
    /// let source = extensor::ops::catalogue::find("exp")?.sources().function;
    /// assert_eq!(source.unwrap().path(), "crates/extensor/src/ops/elementwise/functions.rs");
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn path(&self) -> String {
        let file = self.file.replace('\\', "/");
        let within = file.rfind("src/ops/").map_or(file.as_str(), |at| &file[at..]);
        format!("crates/extensor/{within}")
    }

    /// The first example of the documentation, without what rustdoc hides.
    ///
    /// ```
    /// let source = extensor::ops::catalogue::find("add")?.sources().function;
    /// assert!(source.unwrap().example().unwrap().contains("add"));
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn example(&self) -> Option<String> {
        let lines = self.documentation.lines().map(|l| l.strip_prefix(' ').unwrap_or(l));
        let mut block = lines.skip_while(|l| !l.starts_with("```")).skip(1);
        let mut made = String::new();
        for line in block.by_ref().take_while(|l| !l.starts_with("```")) {
            if !line.starts_with("# ") && line != "#" {
                made += line;
                made.push('\n');
            }
        }
        (!made.is_empty()).then_some(made)
    }
}

/// An operation's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The operation itself.
    pub function: Option<Source>,
    /// Its explicit backward function, if there is one.
    pub backward: Option<Source>,
}

impl Sources {
    pub(super) const NONE: Sources = Sources { function: None, backward: None };
}

/// The name of a function, as a type.
pub struct Name<const HASH: u64>;

/// A function whose place is known.
pub trait Noted {
    /// What is known of it.
    const SOURCE: Option<Source>;
}

/// An operation without a backward function.
impl Noted for Name<{ hash("") }> {
    const SOURCE: Option<Source> = None;
}

/// FNV-1a: a name as a number. Two functions with one number would not compile.
pub const fn hash(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// The name of the explicit backward function; empty where there is none.
pub const fn backward_function(record: &'static Record) -> &'static str {
    match &record.backward {
        Some(signature) => signature.name,
        None => "",
    }
}

/// The domain and the conventions among a record's fields, for the documentation of a function.
macro_rules! edges {
    () => { "" };
    (conventions: "", $($rest:tt)*) => { crate::ops::source::edges!($($rest)*) };
    (domain: $text:expr, $($rest:tt)*) => {
        concat!("\nDomain: ", $text, ".\n", crate::ops::source::edges!($($rest)*))
    };
    (conventions: $text:expr, $($rest:tt)*) => {
        concat!("\nConventions: ", $text, ".\n", crate::ops::source::edges!($($rest)*))
    };
    ($field:ident: $setting:expr, $($rest:tt)*) => { crate::ops::source::edges!($($rest)*) };
}
pub(super) use edges;
