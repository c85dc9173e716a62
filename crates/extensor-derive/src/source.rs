//! What a function looks like and where it stands, written down when it is compiled: after all
//! macros, so that no list of signatures by hand could differ from them.

use proc_macro2::{Delimiter, TokenStream as Code, TokenTree};
use quote::quote;
use syn::{Attribute, Expr, ItemFn, Meta};

/// The function, and beside it what the reference says of it.
pub(crate) fn noted(function: &ItemFn) -> Code {
    let known = function.sig.ident.to_string();
    // `where_` is called `where` by the catalogue.
    let known = known.trim_end_matches('_');
    let signature = &function.sig;
    let signature = text(quote!(pub #signature));
    let docs = function.attrs.iter().filter_map(doc);
    quote! {
        impl crate::ops::source::Noted
            for crate::ops::source::Name<{ crate::ops::source::hash(#known) }>
        {
            const SOURCE: ::core::option::Option<crate::ops::source::Source> =
                ::core::option::Option::Some(crate::ops::source::Source {
                    signature: #signature,
                    documentation: ::core::concat!(#(#docs, "\n"),*),
                    file: ::core::file!(),
                    line: ::core::line!(),
                });
        }
    }
}

/// A line of documentation; it may be made by a macro.
fn doc(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    }
}

/// Tokens as one writes them: `&[usize]`, not `& [usize]`.
fn text(code: Code) -> String {
    let mut made = String::new();
    // Whether what comes next stands close to what is there.
    let mut close = true;
    append(&mut made, code, &mut close);
    made.replace(",)", ")")
}

fn append(made: &mut String, code: Code, close: &mut bool) {
    for token in code {
        match token {
            TokenTree::Group(group) => {
                let (open, shut) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                // The arguments stand close to the function's name, a tuple does not to `->`.
                let called = made.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '>')
                    && !made.ends_with("->")
                    && open == "(";
                if !*close && !called && !open.is_empty() {
                    made.push(' ');
                }
                made.push_str(open);
                *close |= !open.is_empty();
                append(made, group.stream(), close);
                made.push_str(shut);
                *close = shut.is_empty() && *close;
            }
            TokenTree::Punct(punct) => {
                let c = punct.as_char();
                let before = matches!(c, ',' | ':' | ';' | '?' | '<' | '>');
                if !*close && !before {
                    made.push(' ');
                }
                made.push(c);
                *close = matches!(c, '&' | '<' | '\'' | '-') || made.ends_with("::");
                // The first of two colons: nothing comes between them.
                if c == ':' && punct.spacing() == proc_macro2::Spacing::Joint {
                    *close = true;
                }
            }
            other => {
                if !*close {
                    made.push(' ');
                }
                made.push_str(&other.to_string());
                *close = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_written_as_one_writes_it() {
        let lines = [
            "pub fn sum(x: &Tensor, axis: impl Into<Over>) -> Result<Tensor>",
            "pub fn f<'a>(x: &Tensor, gamma: impl Into<Option<&'a Tensor>>) -> Result<(Tensor, Tensor)>",
            "pub fn g(grads: &[impl Borrow<Tensor>], shape: &[usize], of: [&Tensor; 3]) -> Result<Vec<Tensor>>",
            "pub fn h(x: std::ops::Range<usize>) -> [f64; 2]",
        ];
        for line in lines {
            let code: Code = line.parse().expect("Rust");
            assert_eq!(text(code), line);
        }
    }
}
