//! Where a source file can be changed: expressions, by their bytes, and what each could become.
//!
//! Only what computes is looked at: not constants (an operation's record, its samples), tests,
//! refusals, nor anything near `unsafe`, where a wrong index would be undefined behaviour and not a
//! wrong result.

use crate::operators;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What a file is about, which decides what in it may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Formulas and rules of operations.
    Rules,
    /// What all operations share, and automatic differentiation.
    Engine,
    /// Loops over numbers, among them much index arithmetic that is left alone.
    Kernels,
}

/// A change that could be made.
#[derive(Clone, Debug)]
pub struct Site {
    /// The function it is in, or the operation and the formula: `sigmoid.dy`.
    pub function: String,
    /// The operation, if it is a formula in an operation's block.
    pub operation: Option<String>,
    /// Which kind of change.
    pub operator: &'static str,
    /// The bytes of the expression.
    pub range: Range<usize>,
    /// What it would become.
    pub changed: String,
}

/// All changes that could be made to a file.
pub fn sites(source: &str, scope: Scope) -> Result<Vec<Site>, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut finder = Finder { source, scope, path: Vec::new(), operation: None, sites: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.sites)
}

struct Finder<'s> {
    source: &'s str,
    scope: Scope,
    path: Vec<String>,
    operation: Option<String>,
    sites: Vec<Site>,
}

/// Functions that refuse, describe or prepare, and compute nothing.
const SILENT: [&str; 10] =
    ["infer", "record", "fmt", "check", "expect", "boxed", "drop", "samples", "errors", "terms"];

impl Finder<'_> {
    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    /// Whether there is nothing to be changed in a function.
    fn leaves_alone(
        &self,
        attributes: &[syn::Attribute],
        f: &syn::Signature,
        body: &syn::Block,
    ) -> bool {
        let name = f.ident.to_string();
        let head = self.text(f.span().byte_range());
        SILENT.contains(&name.as_str())
            || ["bad", "refuse", "wrong", "no_", "infer_", "expect_"]
                .iter()
                .any(|p| name.starts_with(p))
            || f.constness.is_some()
            || ["Sampler", "Bad", "-> Error", "Formatter"].iter().any(|word| head.contains(word))
            || attributes.iter().any(|a| is(a, "cold") || is(a, "test") || is_test_only(a))
            || self.text(body.span().byte_range()).contains("unsafe ")
            || f.unsafety.is_some()
    }

    fn push(&mut self, operator: &'static str, expression: &syn::Expr, changed: String) {
        let (function, operation) = (self.path.join("::"), self.operation.clone());
        let range = expression.span().byte_range();
        self.sites.push(Site { function, operation, operator, range, changed });
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.path.push(name);
        visit(self);
        self.path.pop();
    }

    /// The formulas of a macro that defines an operation: `name = |variables| expression`.
    fn formulas(&mut self, name: &str, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let punct = |k: usize, c: char| matches!(tokens.get(k), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let operation = names(&tokens).nth(1).unwrap_or_else(|| name.to_string());
        for k in 1..tokens.len() {
            if !(punct(k, '=') && punct(k + 1, '|')) {
                continue;
            }
            let TokenTree::Ident(formula) = &tokens[k - 1] else { continue };
            let Some(bar) = (k + 2..tokens.len()).find(|&j| punct(j, '|')) else { continue };
            let end = (bar + 1..tokens.len()).find(|&j| punct(j, ',') || punct(j, ';'));
            let body = &tokens[bar + 1..end.unwrap_or(tokens.len())];
            let Ok(body) = syn::parse2::<syn::Expr>(body.iter().cloned().collect()) else {
                continue;
            };
            self.operation = Some(operation.clone());
            self.inside(format!("{operation}.{formula}"), |finder| finder.visit_expr(&body));
            self.operation = None;
        }
    }
}

/// The words of a macro's body, without those of its attributes.
fn names(tokens: &[TokenTree]) -> impl Iterator<Item = String> + '_ {
    let attribute = |token: &TokenTree| {
        matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket)
            || matches!(token, TokenTree::Punct(_))
    };
    tokens.iter().filter(move |t| !attribute(t)).filter_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    })
}

fn is(attribute: &syn::Attribute, name: &str) -> bool {
    attribute.path().is_ident(name)
}

fn is_test_only(attribute: &syn::Attribute) -> bool {
    is(attribute, "cfg")
        && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
}

/// Whether a call makes an error, or is one.
fn refuses(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Call(call) => matches!(&*call.func, syn::Expr::Path(path) if {
            let last = path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
            last == "Err" || last.starts_with("bad_") || last.contains("error")
        }),
        syn::Expr::Struct(made) => made.path.segments.first().is_some_and(|s| s.ident == "Error"),
        syn::Expr::MethodCall(call) => {
            ["ok_or_else", "ok_or", "map_err", "field"].contains(&call.method.to_string().as_str())
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !module.attrs.iter().any(is_test_only) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = self.text(item.self_ty.span().byte_range());
        let name = of.split(['<', ' ']).next().unwrap_or(of).to_string();
        if item.unsafety.is_none() {
            self.inside(name, |finder| visit::visit_item_impl(finder, item));
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !self.leaves_alone(&item.attrs, &item.sig, &item.block) {
            self.inside(item.sig.ident.to_string(), |finder| finder.visit_block(&item.block));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.leaves_alone(&item.attrs, &item.sig, &item.block) {
            self.inside(item.sig.ident.to_string(), |finder| finder.visit_block(&item.block));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let Some(block) = &item.default else { return };
        if !self.leaves_alone(&item.attrs, &item.sig, block) {
            self.inside(item.sig.ident.to_string(), |finder| finder.visit_block(block));
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_none() && self.scope == Scope::Rules {
            let name = item.mac.path.segments.last().map(|s| s.ident.to_string());
            self.formulas(&name.unwrap_or_default(), item.mac.tokens.clone());
        }
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        if refuses(expression) || matches!(expression, syn::Expr::Const(_)) {
            return;
        }
        for (operator, changed) in operators::of(expression, self.source, self.scope) {
            self.push(operator, expression, changed);
        }
        let kernels = self.scope == Scope::Kernels;
        if let syn::Expr::If(choice) = expression
            && !kernels
            && !operators::has_let(&choice.cond)
        {
            let condition = self.text(choice.cond.span().byte_range());
            let changed = format!("!({condition})");
            self.push("other branch", &choice.cond, changed);
        }
        match expression {
            // A loop that never ends tells nobody anything, and a length must be a constant.
            syn::Expr::While(repeat) => self.visit_block(&repeat.body),
            syn::Expr::Repeat(array) => self.visit_expr(&array.expr),
            // Nor is reading beside a list of inputs a subtle error.
            syn::Expr::Index(at) => self.visit_expr(&at.expr),
            syn::Expr::Range(_) if kernels => {}
            syn::Expr::ForLoop(repeat) if kernels => self.visit_block(&repeat.body),
            _ => visit::visit_expr(self, expression),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, scope: Scope) -> Vec<(String, &'static str, String)> {
        let all = sites(source, scope).unwrap();
        all.into_iter().map(|s| (s.function, s.operator, s.changed)).collect()
    }

    #[test]
    fn a_formula_in_an_operations_block_is_found_with_the_operations_name() {
        let source = r#"unary! {
            /// Doubles.
            real twice, twice_backward(x), Twice of Activation:
                y = |x| x + x,
                dy = |g, x| -g;
                "y = 2x", "y′ = 2",
                on "all numbers" [-6.0, 6.0];
        }"#;
        let all = found(source, Scope::Rules);
        let plus = ("twice.y".to_string(), "+ to -", "(x) - (x)".to_string());
        assert!(all.contains(&plus), "{all:?}");
        assert!(all.contains(&("twice.dy".into(), "drop -", "g".into())), "{all:?}");
        assert!(all.iter().all(|(function, ..)| function.starts_with("twice.")), "{all:?}");
    }

    #[test]
    fn a_condition_is_turned_round() {
        let all = found("fn f(a: bool) { if a { g(); } h(); }", Scope::Engine);
        assert_eq!(all, [("f".to_string(), "other branch", "!(a)".to_string())]);
    }

    #[test]
    fn the_bytes_of_a_site_are_those_of_its_expression() {
        let source = "/// Ω\nfn f(x: f64, y: f64) -> f64 { x.sin() + y }";
        for site in sites(source, Scope::Rules).unwrap() {
            let text = &source[site.range];
            assert!(text == "x.sin() + y" || text == "x.sin()", "{text}");
        }
    }

    #[test]
    fn records_samples_tests_refusals_and_what_is_near_unsafe_are_left_alone() {
        let source = "
            const A: f64 = 1.0 + 2.0;
            fn more(s: &mut Sampler) { s.add(1.0 + 2.0); }
            fn infer(x: f64) -> f64 { x + x }
            fn near(x: *const f64) -> f64 { unsafe { *x + 1.0 } }
            fn refuse(x: f64) -> Result<f64> { Err(Error::Shape { expected: x + x }) }
            #[cfg(test)]
            mod tests { fn f(x: f64) -> f64 { x + x } }";
        assert_eq!(found(source, Scope::Engine), []);
    }

    #[test]
    fn loops_that_would_not_end_and_index_arithmetic_in_kernels_are_left_alone() {
        let source = "fn f(x: &[f64], n: usize) { let mut i = 0; while i < n - 1 { g(x[i + 1], 2 * i); i += 1; } }";
        assert_eq!(found(source, Scope::Kernels), []);
    }
}
