//! The program `extensor`: trains networks, proves every gradient of the library, and lists its
//! operations.
//!
//! What the program does is here, so that tests can call it; `main.rs` only reads the command line.

#![forbid(unsafe_code)]

pub mod beside;
pub mod check;
pub mod eval;
pub mod file;
pub mod golden;
pub mod html;
pub mod inspect;
pub mod json;
pub mod ops;
pub mod output;
pub mod plot;
pub mod predict;
pub mod reference;
pub mod text;
pub mod train;

/// The operation whose name is most like `name`, if one is: a slip away, or a longer name that has it in it.
///
/// ```
/// assert_eq!(extensor_cli::nearest("sqr"), Some("sqrt"));
/// assert_eq!(extensor_cli::nearest("hinge"), Some("hinge_loss"));
/// // Another operation is no answer.
/// assert_eq!(extensor_cli::nearest("wavelet"), None);
/// ```
pub fn nearest(name: &str) -> Option<&'static str> {
    let names = extensor::ops::catalogue::CATALOGUE.iter().map(|r| r.name);
    let near = names.map(|known| (known, likeness(name, known)));
    let best = near.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (best.1 >= 0.7).then_some(best.0)
}

/// How much of `name` and `known` is the same, from 0 to 1; at least 0.7 where `name` is a part of `known`.
fn likeness(name: &str, known: &str) -> f64 {
    if name.len() > 3 && known.contains(name) {
        return 0.7 + 0.3 * name.len() as f64 / known.len() as f64;
    }
    strsim::normalized_damerau_levenshtein(name, known)
}

/// An error with the nearest name added where it is about a name, or with what it is called here, be it an operation or
/// something [beside](mod@beside) them.
///
/// ```
/// let error = extensor::ops::catalogue::find("unsqueeze").unwrap_err();
/// let text = "there is no operation \"unsqueeze\" in the catalogue; here it is called \"expand_dims\"";
/// assert_eq!(extensor_cli::explain(&error), text);
/// let error = extensor::ops::catalogue::find("argwhere").unwrap_err();
/// let text = "there is no operation \"argwhere\" in the catalogue; in Rust it is extensor::ops::nonzero";
/// assert_eq!(extensor_cli::explain(&error), text);
/// ```
pub fn explain(error: &extensor::Error) -> String {
    let extensor::Error::UnknownOperation { name } = error else { return error.to_string() };
    let here: Vec<String> = extensor::ops::catalogue::known_as(name)
        .map(|record| format!("{:?}", record.name))
        .collect();
    match (beside::beside(name), nearest(name)) {
        _ if !here.is_empty() => format!("{error}; here it is called {}", here.join(" or ")),
        (Some(path), _) => format!("{error}; in Rust it is {path}"),
        (None, Some(near)) => format!("{error}; did you mean {near:?}?"),
        (None, None) => format!("{error}; `extensor ops` lists them"),
    }
}
