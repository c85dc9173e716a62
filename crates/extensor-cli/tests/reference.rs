//! The generated reference.

use extensor::check::suite::samples;
use extensor::ops::catalogue::{CATALOGUE, find};
use extensor::ops::params::Params;
use extensor::ops::record::{Class, Record};
use extensor::{DType, Tensor};
use extensor_cli::reference::chart::ticks;
use extensor_cli::reference::latex::{self, Piece};
use extensor_cli::reference::page::INVERSES;
use extensor_cli::reference::picture::picture;
use extensor_cli::reference::{Checked, facts, pages, rust_examples};
use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};
use std::collections::HashSet;
use std::sync::LazyLock;

/// The pages without what the checks found, which takes longer.
static PAGES: LazyLock<Vec<(String, String)>> =
    LazyLock::new(|| pages(&Checked::nothing()).unwrap());

fn page(name: &str) -> &'static str {
    let file = format!("{name}.md");
    let found = PAGES.iter().find(|(known, _)| *known == file);
    &found.unwrap_or_else(|| panic!("there is no page {file}")).1
}

#[test]
fn every_operation_has_a_page_with_all_that_there_is_to_say() {
    for record in CATALOGUE {
        let text = page(record.name);
        assert!(text.starts_with(&format!("# {}\n", record.name)));
        for part in [
            "## Signatures",
            "pub fn ",
            "## Example",
            "```python",
            "## Edges",
            "| domain |",
            "## Errors",
            "## See also",
            "- source: ",
        ] {
            assert!(text.contains(part), "{}: no {part:?}", record.name);
        }
        let backward = format!("{}(", facts::backward_name(record));
        assert!(text.contains(&backward), "{}: {backward}", record.name);
        assert_eq!(
            text.contains("| backward |"),
            record.is_differentiable(),
            "{}: the cost of its backward pass",
            record.name
        );
        for alias in record.aliases() {
            assert!(text.contains(&format!("`{alias}`")), "{}: {alias}", record.name);
        }
        for parameter in record.params {
            assert!(
                text.contains(&format!("| `{}` |", parameter.name)),
                "{}: {}",
                record.name,
                parameter.name
            );
        }
    }
}

#[test]
fn a_page_leads_to_pages_and_speaks_of_g_where_a_derivative_does() {
    for (name, text) in PAGES.iter() {
        assert!(!text.contains("(crate::"), "{name}");
    }
    assert!(page("hard_tanh").contains("[`clip`](clip.md)"));
    for (name, spoken) in [("matmul", true), ("svd", false), ("cholesky", false)] {
        assert_eq!(page(name).contains("where $g$ is the gradient"), spoken, "{name}");
    }
}

#[test]
fn a_convention_has_a_line_of_its_own_and_signs_in_it_end_none() {
    let convention = "for n &lt; 1 at 0 it uses ±1e-10 for x, and stays finite";
    for name in ["power", "conventions"] {
        let lines = page(name).split("<br>").flat_map(|part| part.split(" | "));
        assert!(lines.into_iter().any(|line| line.ends_with(convention)), "{name}");
    }
    for (name, page) in PAGES.iter() {
        assert!(!page.contains("&lt<br>") && !page.contains("&gt<br>"), "{name}");
    }
}

#[test]
fn a_page_says_what_the_checks_found() {
    let checked = Checked::run("sq*").unwrap();
    let all = pages(&checked).unwrap();
    let text = &all.iter().find(|(name, _)| name == "sqrt.md").unwrap().1;
    let section = text.split("## Checks").nth(1).unwrap();
    assert!(section.contains("| `f64` | order 2 | ") && section.contains("| `f32` | order 1 | "));
    assert_eq!(section.matches("✓ passed").count(), 2, "{section}");
    assert!(!page("sqrt").contains("## Checks"));
}

#[test]
fn every_link_of_every_page_resolves() {
    let files: HashSet<&str> = PAGES.iter().map(|(name, _)| name.as_str()).collect();
    let mut linked: HashSet<&str> = HashSet::new();
    for (name, text) in PAGES.iter() {
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap();
            if let Some(path) = target.strip_prefix(env!("CARGO_PKG_REPOSITORY")) {
                // A line of a file of this repository.
                let (path, line) =
                    path.strip_prefix("/blob/main/").unwrap().split_once("#L").unwrap();
                let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
                let source = std::fs::read_to_string(format!("{root}{path}")).expect(path);
                let line: usize = line.parse().unwrap();
                assert!(source.lines().count() >= line, "{name}: {target}");
                continue;
            }
            assert!(files.contains(target), "{name}: {target}");
            if name == "SUMMARY.md" {
                linked.insert(target);
            }
        }
    }
    // And the table of contents has all of them.
    let missing: Vec<_> =
        files.iter().filter(|f| **f != "SUMMARY.md" && !linked.contains(**f)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_link_to_a_source_leads_to_the_function_or_to_the_block_that_makes_it() {
    for record in CATALOGUE {
        let source = record.sources().function.unwrap();
        let text = std::fs::read_to_string(format!(
            "{}/../../{}",
            env!("CARGO_MANIFEST_DIR"),
            source.path()
        ))
        .unwrap();
        let lines: Vec<&str> = text.lines().skip(source.line as usize - 1).take(60).collect();
        let name = record.name;
        let near = lines.iter().any(|line| line.contains(name));
        assert!(near, "{name}: {} line {}", source.path(), source.line);
    }
}

fn converter() -> LatexToMathML {
    LatexToMathML::new(MathCoreConfig::default())
        .unwrap_or_else(|_| panic!("the converter's defaults"))
}

#[test]
fn every_formula_and_derivative_is_typeset() {
    let converter = converter();
    let mut count = 0;
    for record in CATALOGUE {
        for line in [record.formula, record.derivative] {
            let pieces = latex::formulas(line, record)
                .unwrap_or_else(|error| panic!("{}: {error}", record.name));
            for piece in &pieces {
                match piece {
                    Piece::Math(latex) => {
                        let made = converter.convert_with_local_counter(latex, MathDisplay::Block);
                        assert!(made.is_ok(), "{}: {latex}", record.name);
                        count += 1;
                    }
                    // What is left in words is words.
                    Piece::Text(words) => {
                        let plain = |c: char| c.is_ascii_alphanumeric() || " ,:'`_-".contains(c);
                        assert!(words.chars().all(plain), "{}: {words:?} of {line:?}", record.name);
                    }
                }
            }
            assert!(line.starts_with("none") || !pieces.is_empty(), "{}", record.name);
            let math = pieces.iter().any(|p| matches!(p, Piece::Math(_)));
            assert!(math || !line.contains('='), "{}: {line:?} has no formula", record.name);
        }
    }
    assert!(count > 250, "{count}");
}

#[test]
fn every_formula_on_a_page_parses() {
    let converter = converter();
    for (name, text) in PAGES.iter() {
        let mut code = false;
        for line in text.lines() {
            code ^= line.starts_with("```");
            if code || line.starts_with("```") {
                continue;
            }
            let unescaped = line.replace("\\$", "");
            let parts: Vec<&str> = unescaped.split('$').collect();
            assert!(parts.len() % 2 == 1, "{name}: {line}");
            for latex in parts.iter().skip(1).step_by(2).filter(|l| !l.is_empty()) {
                assert!(
                    converter.convert_with_local_counter(latex, MathDisplay::Inline).is_ok(),
                    "{name}: {latex}"
                );
            }
        }
    }
}

#[test]
fn fractions_powers_roots_and_cases_are_set_as_such() {
    let shown = |name: &str, line: &str| latex::block(line, find(name).unwrap()).unwrap();
    let cases = [
        ("sigmoid", "y = 1/(1 + e⁻ˣ)", "$$ y = \\frac{1}{1 + e^{-x}} $$"),
        ("divide", "−g·a/b²", "$$ - \\frac{g \\cdot a}{b^{2}} $$"),
        (
            "std",
            "√(Σ (x − mean)² / (n − ddof))",
            "$$ \\sqrt{\\frac{\\sum (x - \\operatorname{mean})^{2}}{n - \\mathrm{ddof}}} $$",
        ),
        ("erf", "2/√π e^(−x²)", "$$ \\frac{2}{\\sqrt{\\pi}}\\, e^{- x^{2}} $$"),
        (
            "relu",
            "y′ = 1 for x > 0, 0 elsewhere",
            "$$ y' = \\begin{cases} 1 & \\text{for } x > 0 \\\\ 0 & \\text{elsewhere} \\end{cases} $$",
        ),
        ("maximum", "g to the larger", "$g$ to the larger."),
        ("sort", "y = x in ascending order", "$y = x$ in ascending order."),
    ];
    for (name, line, expected) in cases {
        assert_eq!(shown(name, line), expected);
    }
    let wrong = latex::block("y = x § 2", find("exp").unwrap());
    assert!(wrong.is_err_and(|error| error.contains("'§' is not in the notation")));
    assert!(latex::block("y = (x + 2", find("exp").unwrap()).is_err());
}

/// The result for a number, other inputs being 2.
fn at(record: &'static Record, x: f64) -> f64 {
    let all = samples(record, 0);
    let params = all.first().map_or_else(Params::new, |s| s.params.clone());
    let (x, other) = (extensor::tensor([x]), extensor::tensor([2.0]));
    let inputs: Vec<&Tensor> = if record.inputs.len() == 1 { vec![&x] } else { vec![&x, &other] };
    record.call(&inputs, &params).unwrap()[0].to_f64_vec()[0]
}

#[test]
fn pictures_have_axis_labels_within_the_domain() {
    let mut count = 0;
    for record in
        CATALOGUE.iter().filter(|r| r.class == Class::Elementwise && r.is_differentiable())
    {
        let Some(shown) = picture(record) else { continue };
        let Some(across) = shown.across else { continue };
        if record.inputs.len() > 2 || record.family == extensor::ops::record::Family::Loss {
            continue;
        }
        let labels = ticks(across, 6.0);
        assert!(labels.len() >= 3, "{}: {labels:?}", record.name);
        for label in &labels {
            // A pole within the range is between two sides.
            let sides = || [-1e-6, 1e-6].iter().all(|h| at(record, label + h).is_finite());
            let there = at(record, *label).is_finite() || sides();
            assert!(there, "{} at {label}", record.name);
        }
        assert_eq!(shown.svg.matches("class=\"tick-x\"").count(), labels.len(), "{}", record.name);
        assert!(shown.svg.matches("class=\"tick-y\"").count() >= 3, "{}", record.name);
        for name in [">f<", ">f′<", ">f″<"] {
            assert!(shown.svg.contains(name), "{}: {name}", record.name);
        }
        count += 1;
    }
    assert!(count > 55, "{count}");
}

#[test]
fn pictures_take_the_colours_of_the_page() {
    for record in CATALOGUE {
        let Some(shown) = picture(record) else { continue };
        assert!(
            shown.svg.contains("currentColor")
                && !shown.svg.contains("#000")
                && !shown.svg.contains("#fff")
        );
        assert!(!shown.svg.contains('\n') && shown.svg.contains("aria-label"), "{}", record.name);
        assert!(!shown.svg.contains("NaN") && !shown.svg.contains("inf"), "{}", record.name);
    }
}

#[test]
fn generated_pages_are_deterministic() {
    let again = pages(&Checked::nothing()).unwrap();
    for ((name, first), (_, second)) in PAGES.iter().zip(&again) {
        assert_eq!(first, second, "{name}");
    }
    let checked = || pages(&Checked::run("log*").unwrap()).unwrap();
    assert_eq!(checked(), checked());
}

#[test]
fn operations_that_are_said_to_undo_each_other_do() {
    for (f, g) in INVERSES {
        let (f, g) = (find(f).unwrap(), find(g).unwrap());
        if !f.params.is_empty() {
            continue; // below
        }
        for x in [0.3, 0.8] {
            assert!((at(g, at(f, x)) - x).abs() < 1e-12, "{} of {} at {x}", g.name, f.name);
        }
    }
    let x = extensor::tensor([[1.0, 2.0], [3.0, 4.0]]);
    let same = |y: &Tensor| assert_eq!((y.shape(), y.to_f64_vec()), (x.shape(), x.to_f64_vec()));
    same(&x.expand_dims(1).unwrap().squeeze(1).unwrap());
    let parts = x.split(2, 0).unwrap();
    same(&extensor::ops::concatenate(&parts, 0).unwrap());
}

#[test]
fn rustdoc_carries_the_domain_and_the_conventions_of_every_operation() {
    // As one line, without what keeps rustdoc from seeing links.
    let plain =
        |text: &str| text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
    for record in CATALOGUE {
        let said = plain(record.sources().function.unwrap().documentation);
        assert!(
            said.contains(&plain(record.conventions)),
            "{}: {:?} in {said:?}",
            record.name,
            record.conventions
        );
        let domain = plain(record.domain);
        assert!(
            domain == "all numbers" || said.contains(&domain),
            "{}: {domain:?} in {said:?}",
            record.name
        );
    }
}

#[test]
fn the_examples_in_rust_are_those_that_the_documentation_tests_run() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/reference/examples.md");
    let made = rust_examples();
    if std::env::var_os("EXTENSOR_WRITE_EXAMPLES").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap();
    assert!(
        made == there,
        "EXTENSOR_WRITE_EXAMPLES=1 cargo test -p extensor-cli --test reference writes {path}"
    );
    assert!(made.matches("\n```\n# let").count() > 70);
}

#[test]
fn every_operation_shows_an_example_in_rust_that_is_run() {
    for record in CATALOGUE {
        let text = page(record.name);
        assert!(text.contains("```rust\n"), "{}", record.name);
    }
}

#[test]
fn costs_are_what_the_kernels_move() {
    let of = |name: &str| {
        let record = find(name).unwrap();
        let cost = facts::cost(record, &samples(record, 0)).unwrap();
        (cost.forward.passes(), cost.forward.bytes, cost.backward.map(|b| (b.passes(), b.bytes)))
    };
    // Read x, write y; read g and y, write the gradient.
    assert_eq!(of("exp"), (2, Some(8), Some((3, Some(12)))));
    // A gradient for each operand, each from g, a and b.
    assert_eq!(of("multiply"), (3, Some(12), Some((8, Some(32)))));
    // Gradients that are g itself; views.
    assert_eq!(of("add").2, Some((0, Some(0))));
    assert_eq!(of("transpose"), (0, Some(0), Some((0, Some(0)))));
    assert_eq!(of("sum").2, Some((0, Some(0))));
    // The index and not the input.
    let gather =
        facts::cost(find("gather").unwrap(), &samples(find("gather").unwrap(), 0)).unwrap();
    assert_eq!(gather.backward.unwrap().reads, ["grad_output", "index"]);
    assert_eq!(of("equal").2, None);
}

#[test]
fn dtypes_are_found_by_asking() {
    let of = |name: &str| facts::dtypes(find(name).unwrap(), &samples(find(name).unwrap(), 0));
    let floats: Vec<&str> = DType::FLOATS.iter().map(|d| d.name()).collect();
    assert!(of("exp").iter().all(|d| floats.contains(d)) && of("exp").len() == 4);
    assert!(of("add").contains(&"i64") && !of("add").contains(&"bool"));
}
