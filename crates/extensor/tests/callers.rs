//! What goes wrong in an operation is reported at the line that called it, not at one of the library's.

use extensor::autodiff::grad;
use extensor::ops as ex;
use extensor::ops::Reduce;
use extensor::{DType, Result, Tensor, debug, tensor};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The engine's doors: whoever calls them hands on its caller's line.
const DOORS: [&str; 4] = ["apply", "apply_one", "backward", "backward_of"];

#[test]
fn every_public_operation_hands_on_its_callers_line() {
    let functions = functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops"));
    let doors = |file: &str| -> BTreeSet<&str> {
        // The file's own helpers on the way to a door are doors themselves.
        let mut doors = BTreeSet::from(DOORS);
        let helpers = functions.iter().filter(|f| f.file == file && f.free && !f.public);
        while let Some(f) =
            helpers.clone().find(|f| !doors.contains(&*f.name) && f.calls_any(&doors))
        {
            doors.insert(&f.name);
        }
        doors
    };
    let (mut counted, mut wrong) = (0, Vec::new());
    for f in &functions {
        let doors = doors(&f.file);
        if !(f.calls_any(&doors) || f.free && f.public && f.of_tensors()) {
            continue;
        }
        counted += 1;
        if !f.tracked {
            wrong.push(format!("{}: {} is not #[track_caller]", f.file, f.name));
        }
        if let Some(door) = doors.iter().find(|door| f.calls_in_closure(door)) {
            wrong.push(format!(
                "{}: {} calls {door} in a closure, whose line it is",
                f.file, f.name
            ));
        }
    }
    assert!(counted > 150, "{counted} functions are too few: the source is read wrongly");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A function in the source, and what a line of a caller depends on.
struct Function {
    file: String,
    name: String,
    /// Its arguments and result.
    head: String,
    body: String,
    tracked: bool,
    public: bool,
    /// Neither a method nor inside something else (macros aside).
    free: bool,
}

impl Function {
    fn of_tensors(&self) -> bool {
        self.head.contains("&Tensor") && self.head.contains("Result<")
    }

    fn calls_any(&self, names: &BTreeSet<&str>) -> bool {
        names.iter().any(|name| lines_calling(&self.body, name).next().is_some())
    }

    fn calls_in_closure(&self, name: &str) -> bool {
        lines_calling(&self.body, name).any(|before| before.matches('|').count() >= 2)
    }
}

/// For each call of a function by this name: what stands before it on its line.
fn lines_calling<'a>(body: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    body.lines().filter_map(move |line| {
        let at = line.find(&format!("{name}("))?;
        let before = &line[..at];
        let ours = match name {
            // Kernels and rules have functions of this name, too.
            "backward" => before.ends_with("operation::") || !before.ends_with([':', '.']),
            _ => true,
        };
        let whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        (whole && ours && !before.trim_start().starts_with("//")).then_some(before)
    })
}

fn functions(folder: &Path) -> Vec<Function> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                // The engine itself, and the samples of its tests.
                false if path.ends_with("operation.rs") || path.ends_with("samples.rs") => {}
                false => files.push(path),
            }
        }
    }
    files.sort();
    files.iter().flat_map(|path| functions_of(path, folder)).collect()
}

fn functions_of(path: &Path, folder: &Path) -> Vec<Function> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let file = path.strip_prefix(folder).unwrap().display().to_string();
    let mut found = Vec::new();
    // The indentation at which a trait's implementation began.
    let mut implemented: Option<usize> = None;
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let depth = line.len() - code.len();
        if implemented.is_some_and(|began| depth <= began && code.starts_with('}')) {
            implemented = None;
        }
        if code.starts_with("impl") && line.contains(" for ")
            || code.starts_with("pub(crate) trait")
        {
            implemented = implemented.or(Some(depth));
        }
        // Methods of traits are called by the engine.
        if implemented.is_some() {
            continue;
        }
        let Some((before, after)) = code.split_once("fn ") else { continue };
        let public = before == "pub ";
        if !(public || before.is_empty() || before.starts_with("pub(") && before.ends_with(") ")) {
            continue;
        }
        let name = after.split(['(', '<']).next().unwrap().to_string();
        // From here to the brace that closes at the same depth.
        let close = format!("{}}}", &line[..depth]);
        let end = lines[at..].iter().position(|l| *l == close).map_or(at + 1, |n| at + n);
        let open = lines[at..end].iter().position(|l| l.ends_with('{')).map_or(at, |n| at + n);
        let attributes = lines[..at].iter().rev().map(|l| l.trim_start());
        let tracked = attributes
            .take_while(|l| l.starts_with("#[") || l.starts_with("///"))
            .any(|l| l == "#[track_caller]");
        found.push(Function {
            file: file.clone(),
            name,
            head: lines[at..=open].join(" "),
            body: lines[(open + 1).min(end)..end].join("\n"),
            tracked,
            public,
            free: depth != 4,
        });
    }
    found
}

const MSE: &str = "mean_squared_error";

type Call<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// Calls that make infinities of finite numbers, one for each form that operations have.
#[test]
fn what_an_operation_makes_infinite_is_reported_at_the_line_that_called_it() {
    let big = &Tensor::full([2, 2], 1e200, DType::F64).unwrap();
    let (zero, huge) = (&big.zeros_like().unwrap(), &tensor(1e200));
    let apart = &tensor([1e200, -1e200]);
    use ex::{mean_squared_error_backward as mse_backward, variance_backward as var_backward};
    let (mean, total) = (Reduce::Mean, Reduce::Sum);
    let calls: Vec<(&str, u32, Call<'_>)> = vec![
        ("square", line!(), Box::new(|| ex::square(big).map(drop))),
        ("log", line!(), Box::new(|| ex::log(zero).map(drop))),
        ("exp", line!(), Box::new(|| ex::exp(big).map(drop))),
        ("square", line!(), Box::new(|| ex::square_backward(big, big).map(drop))),
        ("leaky_relu", line!(), Box::new(|| ex::leaky_relu(&-big, 1e200).map(drop))),
        ("leaky_relu", line!(), Box::new(|| ex::leaky_relu_backward(big, &-big, 1e200).map(drop))),
        ("multiply", line!(), Box::new(|| ex::multiply(big, big).map(drop))),
        ("multiply", line!(), Box::new(|| ex::multiply_backward(big, big, big).map(drop))),
        ("divide", line!(), Box::new(|| ex::divide(big, zero).map(drop))),
        ("prod", line!(), Box::new(|| ex::prod(big, ..).map(drop))),
        ("variance", line!(), Box::new(|| ex::variance(apart, .., 0).map(drop))),
        ("variance", line!(), Box::new(|| var_backward(huge, apart, .., 0).map(drop))),
        ("cumprod", line!(), Box::new(|| ex::cumprod(big, 1).map(drop))),
        (MSE, line!(), Box::new(|| ex::mean_squared_error(big, zero, mean).map(drop))),
        (MSE, line!(), Box::new(|| mse_backward(huge, big, zero, total).map(drop))),
        ("matmul", line!(), Box::new(|| ex::matmul(big, big).map(drop))),
        ("multiply", line!(), Box::new(|| (big * big).contiguous().map(drop))),
        ("square", line!(), Box::new(|| grad(|x| ex::square(x), huge).map(drop))),
    ];
    for (op, line, call) in &calls {
        let found = catch_unwind(AssertUnwindSafe(|| debug::finite(call)));
        // An operator panics with the sentence.
        let text = match &found {
            Ok(found) => found.as_ref().expect_err(op).to_string(),
            Err(panic) => panic.downcast_ref::<String>().unwrap().clone(),
        };
        assert!(text.starts_with(&format!("{op}: its ")), "{text}");
        assert!(text.ends_with(&format!("; called at {}:{line}", file!())), "{text}");
    }
}
