//! What an expression could become: each operator gives another expression of the same type, most of
//! the time; what does not compile is dropped later.

use crate::find::Scope;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, UnOp};

/// Methods that take the same arguments and compute something else.
const METHODS: [(&str, &str); 22] = [
    ("sin", "cos"),
    ("cos", "sin"),
    ("sinh", "cosh"),
    ("cosh", "sinh"),
    ("exp", "expm1"),
    ("expm1", "exp"),
    ("log", "log1p"),
    ("log1p", "log"),
    ("sigmoid", "tanh"),
    ("softplus", "exp"),
    ("bell", "exp"),
    ("maximum", "minimum"),
    ("minimum", "maximum"),
    ("max", "min"),
    ("min", "max"),
    ("floor", "ceil"),
    ("lt", "le"),
    ("le", "lt"),
    ("gt", "ge"),
    ("ge", "gt"),
    ("any", "all"),
    ("all", "any"),
];

/// Methods of one number that could be forgotten.
const FORGOTTEN: [&str; 6] = ["abs", "sqrt", "sign", "exp", "tanh", "erf"];

/// Operations that take the same arguments.
const OPERATIONS: [(&str, &str); 8] = [
    ("add", "subtract"),
    ("subtract", "add"),
    ("multiply", "divide"),
    ("divide", "multiply"),
    ("maximum", "minimum"),
    ("minimum", "maximum"),
    ("sum", "mean"),
    ("mean", "sum"),
];

/// Functions of a formula that leave most numbers as they are.
const GUARDS: [&str; 5] = ["guard", "guard_above", "settle", "not_below", "defined"];

/// The kinds of change to an expression (not to its parts), and what it becomes.
pub fn of(expression: &Expr, source: &str, scope: Scope) -> Vec<(&'static str, String)> {
    let text = |e: &Expr| source[bytes(e)].to_string();
    if scope == Scope::Kernels && !is_about_numbers(expression) {
        return Vec::new();
    }
    let mut found = Vec::new();
    match expression {
        Expr::Binary(e) => {
            let (a, b) = (text(&e.left), text(&e.right));
            let with = |operator: &str| format!("({a}) {operator} ({b})");
            match e.op {
                BinOp::Add(_) => {
                    found.push(("+ to -", with("-")));
                    found.push(("drop term", a.clone()));
                }
                BinOp::Sub(_) => {
                    found.push(("- to +", with("+")));
                    found.push(("drop term", a.clone()));
                }
                BinOp::Mul(_) => {
                    found.push(("* to /", with("/")));
                    found.push(("drop factor", a.clone()));
                    found.push(("drop factor", b.clone()));
                }
                BinOp::Div(_) => {
                    found.push(("/ to *", with("*")));
                    found.push(("drop divisor", a.clone()));
                }
                // Where one way of computing gives way to another, the result is the same.
                BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_)
                    if is_constant(&e.left) || is_constant(&e.right) => {}
                BinOp::Lt(_) => found.push(("< to <=", with("<="))),
                BinOp::Le(_) => found.push(("<= to <", with("<"))),
                BinOp::Gt(_) => found.push(("> to >=", with(">="))),
                BinOp::Ge(_) => found.push((">= to >", with(">"))),
                BinOp::Eq(_) => found.push(("== to !=", with("!="))),
                BinOp::Ne(_) => found.push(("!= to ==", with("=="))),
                BinOp::And(_) if !has_let(expression) => found.push(("&& to ||", with("||"))),
                BinOp::Or(_) => found.push(("|| to &&", with("&&"))),
                BinOp::BitAnd(_) => found.push(("& to |", with("|"))),
                BinOp::BitOr(_) => found.push(("| to &", with("&"))),
                BinOp::AddAssign(_) => found.push(("+= to -=", format!("{a} -= {b}"))),
                BinOp::SubAssign(_) => found.push(("-= to +=", format!("{a} += {b}"))),
                BinOp::MulAssign(_) => found.push(("*= to /=", format!("{a} /= {b}"))),
                _ => {}
            }
        }
        Expr::Unary(e) => match e.op {
            UnOp::Neg(_) => found.push(("drop -", text(&e.expr))),
            UnOp::Not(_) => found.push(("drop !", text(&e.expr))),
            _ => {}
        },
        Expr::MethodCall(e) => {
            let (of, name) = (text(&e.receiver), e.method.to_string());
            let arguments: Vec<String> = e.args.iter().map(text).collect();
            let listed = arguments.join(", ");
            if let Some((_, other)) = METHODS.iter().find(|(method, _)| *method == name)
                && e.args.len() <= 1
            {
                found.push(("other function", format!("({of}).{other}({listed})")));
            }
            if e.args.is_empty() && FORGOTTEN.contains(&name.as_str()) {
                found.push(("forget function", of.clone()));
            }
            match (name.as_str(), arguments.as_slice()) {
                ("mul_add", [b, c]) => {
                    found.push(("sign of product", format!("(-({of})).mul_add({b}, {c})")));
                    found.push(("sign of summand", format!("({of}).mul_add({b}, -({c}))")));
                    found.push(("drop summand", format!("({of}) * ({b})")));
                }
                ("times", [_]) => found.push(("drop factor", of.clone())),
                ("lit", [c]) if changes_by_a_factor(&e.args[0]) => {
                    found.push(("constant off by 1e-3", format!("({of}).lit(({c}) * 1.001)")));
                }
                _ => {}
            }
        }
        Expr::Call(e) => called(e, &text, &mut found),
        Expr::Lit(e) => match &e.lit {
            Lit::Bool(value) => found.push(("flag", (!value.value).to_string())),
            Lit::Int(value) if scope == Scope::Rules && value.suffix().is_empty() => {
                if let Ok(n @ 0..4) = value.base10_parse::<u64>() {
                    found.push(("off by one", (n + 1).to_string()));
                }
            }
            _ => {}
        },
        _ => {}
    }
    found
}

/// Changes to a call of a function.
fn called(
    e: &syn::ExprCall,
    text: &dyn Fn(&Expr) -> String,
    found: &mut Vec<(&'static str, String)>,
) {
    let Expr::Path(function) = &*e.func else { return };
    let segments: Vec<String> =
        function.path.segments.iter().map(|s| s.ident.to_string()).collect();
    let arguments: Vec<String> = e.args.iter().map(text).collect();
    match (segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), arguments.as_slice())
    {
        ([.., "select"], [mask, a, b]) => {
            let function = text(&e.func);
            found.push(("branches exchanged", format!("{function}({mask}, {b}, {a})")));
            found.push(("always the second", b.clone()));
        }
        (["ops", name], _) => {
            if let Some((_, other)) = OPERATIONS.iter().find(|(operation, _)| operation == name) {
                let other = format!("ops::{other}({})", arguments.join(", "));
                found.push(("other operation", other));
            }
        }
        ([name], [first, ..]) if GUARDS.contains(name) => {
            found.push(("forget function", first.clone()));
        }
        _ => {}
    }
}

fn bytes(e: &Expr) -> Range<usize> {
    e.span().byte_range()
}

/// Whether a constant times 1.001 is another number.
fn changes_by_a_factor(constant: &Expr) -> bool {
    match constant {
        Expr::Lit(e) => match &e.lit {
            Lit::Float(value) => {
                value.base10_parse().is_ok_and(|c: f64| c != 0.0 && c.abs() < 1e300)
            }
            _ => false,
        },
        Expr::Unary(e) => changes_by_a_factor(&e.expr),
        Expr::Path(path) => {
            let name = path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
            !["NAN", "INFINITY", "NEG_INFINITY"].contains(&name.as_str())
        }
        _ => true,
    }
}

/// Whether an expression is the name of a constant.
fn is_constant(expression: &Expr) -> bool {
    matches!(expression, Expr::Path(path) if path.path.get_ident().is_some_and(|name| {
        let name = name.to_string();
        name.len() > 1 && name.chars().all(|c| !c.is_lowercase())
    }))
}

/// Whether a condition takes something apart.
pub fn has_let(condition: &Expr) -> bool {
    struct Find(bool);
    impl<'ast> Visit<'ast> for Find {
        fn visit_expr_let(&mut self, _: &'ast syn::ExprLet) {
            self.0 = true;
        }
    }
    let mut find = Find(false);
    find.visit_expr(condition);
    find.0
}

/// Names of sizes, places and counters in kernels.
const PLACES: &str = "\
    i j k n m at start end len count row rows col columns width height step stride strides \
    offset offsets size each lane lanes first last block blocks chunk chunks task tasks units \
    together axis head heads keys queries plane planes place window padding dilation group \
    groups depth index stop half whole results threads run per_row per_chunk stretch channels \
    images bits shift exponent ahead position level slots number need seen outer inner rest ldc \
    mc nc kc mr nr taps work products value_width part parts past counts room bytes used from \
    to next top low high left right output input inputs y_len x_len wanted odd even word words \
    tile panel panels filter filters piece pieces strip strips unit kernel column q_most k_most \
    row_parts col_parts rest_parts";

/// Methods of sizes, places and lists.
const COUNTING: &str = "\
    len count div_ceil saturating_sub saturating_mul is_empty is_none is_some contains \
    abs_diff is_multiple_of is_negative leading_zeros load as_slice unsigned_abs clamp iter filter";

fn is_place(name: &str) -> bool {
    PLACES.split_whitespace().any(|place| place == name)
}

/// Whether an expression computes with the numbers of a kernel, not with places and sizes.
fn is_about_numbers(expression: &Expr) -> bool {
    struct Look(bool);
    impl<'ast> Visit<'ast> for Look {
        fn visit_expr_lit(&mut self, e: &'ast syn::ExprLit) {
            self.0 &= !matches!(e.lit, Lit::Int(_) | Lit::Bool(_));
        }
        fn visit_expr_method_call(&mut self, e: &'ast syn::ExprMethodCall) {
            self.0 &= !COUNTING.split_whitespace().any(|name| e.method == name);
            visit::visit_expr_method_call(self, e);
        }
        fn visit_expr_cast(&mut self, _: &'ast syn::ExprCast) {
            self.0 = false;
        }
        fn visit_expr_field(&mut self, e: &'ast syn::ExprField) {
            if let syn::Member::Named(name) = &e.member {
                self.0 &= !is_place(&name.to_string());
            }
            visit::visit_expr_field(self, e);
        }
        // What is between brackets says where a number is, not what it is.
        fn visit_expr_index(&mut self, e: &'ast syn::ExprIndex) {
            self.visit_expr(&e.expr);
        }
        fn visit_expr_path(&mut self, e: &'ast syn::ExprPath) {
            self.0 &= !is_constant(&Expr::Path(e.clone()));
            if let Some(name) = e.path.get_ident() {
                self.0 &= !is_place(&name.to_string());
            }
        }
        fn visit_expr_call(&mut self, e: &'ast syn::ExprCall) {
            if let Expr::Path(function) = &*e.func
                && let Some(last) = function.path.segments.last()
            {
                self.0 &= !["size_of", "size_of_val", "threads", "from"]
                    .contains(&last.ident.to_string().as_str());
            }
            e.args.iter().for_each(|a| self.visit_expr(a));
        }
    }
    let mut look = Look(true);
    look.visit_expr(expression);
    look.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(source: &str, scope: Scope) -> Vec<(&'static str, String)> {
        of(&syn::parse_str::<Expr>(source).unwrap(), source, scope)
    }

    #[test]
    fn signs_factors_constants_branches_and_functions_change() {
        let has = |source: &str, changed: &str| {
            let all = changes(source, Scope::Rules);
            assert!(all.iter().any(|(_, to)| to == changed), "{source}: {all:?}");
        };
        has("a - b * c", "(a) + (b * c)");
        has("a * b", "(a) / (b)");
        has("-x", "x");
        has("x.lit(0.5)", "(x).lit((0.5) * 1.001)");
        has("R::select(m, a, b)", "R::select(m, b, a)");
        has("x.sin()", "(x).cos()");
        has("a.mul_add(b, c)", "(a).mul_add(b, -(c))");
        has("ops::sum(g, axes, true)", "ops::mean(g, axes, true)");
        has("guard(x)", "x");
        has("true", "false");
    }

    #[test]
    fn a_constant_that_a_factor_does_not_change_is_left_alone() {
        for source in ["x.lit(0.0)", "x.lit(f64::INFINITY)", "x.lit(f64::NAN)"] {
            assert_eq!(changes(source, Scope::Rules), []);
        }
    }

    #[test]
    fn in_kernels_numbers_change_and_places_do_not() {
        assert!(!changes("sums[k] + x[i]", Scope::Kernels).is_empty());
        assert!(!changes("weight * (grads[j] - mean)", Scope::Kernels).is_empty());
        for source in ["start + i", "x.len() / 2", "row * width", "(a as usize) + b", "n - 1"] {
            assert_eq!(changes(source, Scope::Kernels), [], "{source}");
        }
    }
}
