//! Random programs, each eagerly and compiled: the same bits, of values and of derivatives.
//!
//! A program is a list of operations of the catalogue, drawn from a seed: functions of numbers with
//! broadcasting, views, reductions, products, softmax and norms, indices, masks, casts, in all float dtypes
//! mixed; values are used again, and several are results. Programs of special numbers and of more numbers than one
//! thread takes are among them. What fails is made smaller, an operation at a time, while it still fails, and
//! printed. `EXTENSOR_PROGRAMS` says how many there are and `EXTENSOR_PROGRAMS_SEED` from which seed on.
//!
//! Any NaN is the same as any other: kernels do not promise which of two goes on.

mod draw;
mod program;

use draw::Draw;
use extensor::autodiff::{grad, hvp, jvp};
use extensor::check::bit_difference;
use extensor::compile::compile;
use extensor::{DType, Result, Tensor, threads};
use program::{Arguments, Program};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn setting(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|v| v.parse().ok());
    given.unwrap_or(default)
}

/// What is computed of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Value,
    Gradient,
    Forward,
    Second,
}

/// A sum of the float results.
fn total(program: &Program, arguments: &Arguments) -> Result<Tensor> {
    let mut sum = extensor::tensor(0.0);
    let results = program.run(arguments)?;
    for (k, y) in results.iter().filter(|y| y.dtype().is_float()).enumerate() {
        // The gradient of a sum is the same everywhere; that of squares is not.
        let y = if k % 2 == 1 { y.multiply(y)? } else { y.clone() };
        sum = sum.add(&y.sum(..)?.cast(DType::F64)?)?;
    }
    Ok(sum)
}

fn compute(program: &Program, what: What, (x, rest): &Arguments) -> Result<Vec<Tensor>> {
    let f = |x: &Vec<Tensor>| total(program, &(x.clone(), rest.clone()));
    Ok(match what {
        What::Value => program.run(&(x.clone(), rest.clone()))?,
        What::Gradient => grad(f, x)?,
        What::Forward => {
            let f = |x: &Vec<Tensor>| {
                let all = program.run(&(x.clone(), rest.clone()))?;
                Ok(all.into_iter().filter(|y| y.dtype().is_float()).collect::<Vec<_>>())
            };
            let (y, dy) = jvp(f, x, x)?;
            [y, dy].concat()
        }
        What::Second => hvp(f, x, x)?,
    })
}

/// How many elements were compared, and how many of them are numbers.
#[derive(Default)]
struct Seen {
    all: usize,
    numbers: usize,
}

/// Where a program's compiled form differs from it.
fn difference(program: &Program, what: What, seen: &mut Seen) -> Option<String> {
    let compiled = compile(|arguments: &Arguments| compute(program, what, arguments));
    // Twice with other numbers, so that nothing is left of the first; then as at first.
    for (run, arguments) in program.arguments().iter().enumerate() {
        let eager = compute(program, what, arguments);
        let caught = catch_unwind(AssertUnwindSafe(|| match run {
            2 => threads::with(1, || compiled.call(arguments)),
            _ => compiled.call(arguments),
        }));
        let Ok(found) = caught else {
            return Some(format!("run {run}: compiled, it panicked"));
        };
        let wrong = match (found, eager) {
            (Ok(got), Ok(want)) if got.len() == want.len() => {
                for y in &want {
                    let values = y.to_f64_vec();
                    seen.all += values.len();
                    seen.numbers += values.iter().filter(|v| v.is_finite()).count();
                }
                let pairs = got.iter().zip(&want).enumerate();
                let mut wrong = pairs.filter_map(|(k, (a, b))| {
                    Some(format!("number {k}: {}", bit_difference(a, b)?))
                });
                wrong.next()
            }
            (Ok(got), Ok(want)) => Some(format!("{} tensors are not {}", got.len(), want.len())),
            (Err(got), Err(want)) if got.to_string() == want.to_string() => None,
            (Err(got), Err(want)) => Some(format!("compiled: {got}; eager: {want}")),
            (Err(got), Ok(_)) => Some(format!("compiled: {got}")),
            (Ok(_), Err(want)) => Some(format!("eager: {want}; compiled no error")),
        };
        if let Some(wrong) = wrong {
            return Some(format!("run {run}: {wrong}"));
        }
    }
    None
}

/// A smaller program that fails too: results are dropped, and operations replaced by what they give.
fn shrunk(mut program: Program, what: What) -> Program {
    let fails = |program: &Program| difference(program, what, &mut Seen::default()).is_some();
    loop {
        let smaller = program.smaller().into_iter().find(fails);
        match smaller {
            Some(smaller) => program = smaller,
            None => return program,
        }
    }
}

/// What a program is asked for; higher derivatives of some.
fn asked(program: &Program, seed: u64) -> Vec<What> {
    let mut asked = vec![What::Value];
    if program.is_differentiable() {
        asked.push(What::Gradient);
        if seed.is_multiple_of(3) {
            asked.push(What::Forward);
        }
        if seed.is_multiple_of(5) && program.len() <= 30 {
            asked.push(What::Second);
        }
    }
    asked
}

/// Tries the programs of these seeds; what failed, in words.
fn failures(seeds: std::ops::Range<u64>, seen: &mut Seen) -> Vec<String> {
    let mut failures = Vec::new();
    for seed in seeds {
        let program = draw::program(&mut Draw::new(seed));
        for what in asked(&program, seed) {
            if difference(&program, what, seen).is_none() {
                continue;
            }
            let small = shrunk(program.clone(), what);
            let found = difference(&small, what, seen).unwrap_or_default();
            let length = program.len();
            failures.push(format!("seed {seed} ({length} operations), {what:?}: {found}\n{small}"));
            break;
        }
        if failures.len() == 5 {
            break;
        }
    }
    failures
}

#[test]
fn random_programs_compiled_have_the_bits_of_the_eager_call() {
    let (count, first) = (setting("EXTENSOR_PROGRAMS", 300), setting("EXTENSOR_PROGRAMS_SEED", 0));
    let mut seen = Seen::default();
    let failures = failures(first..first + count, &mut seen);
    assert!(failures.is_empty(), "programs went wrong:\n\n{}", failures.join("\n"));
    // What is NaN on both sides proves little.
    let share = seen.numbers as f64 / seen.all as f64;
    println!("{count} programs, {} numbers, {:.1} % finite", seen.all, 100.0 * share);
    assert!(share > 0.75, "only {share} of {} numbers are finite", seen.all);
}

#[test]
fn the_programs_are_as_long_and_as_different_as_they_should_be() {
    let programs: Vec<Program> = (0..200).map(|seed| draw::program(&mut Draw::new(seed))).collect();
    let lengths = programs.iter().map(Program::len);
    assert!(lengths.clone().any(|n| n < 5) && lengths.clone().any(|n| n > 50));
    assert!(lengths.clone().all(|n| (1..=60).contains(&n)));
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for name in programs.iter().flat_map(Program::names) {
        *names.entry(name).or_default() += 1;
    }
    assert!(names.len() > 90, "{}: {names:?}", names.len());
    for name in [
        "add",
        "transpose",
        "slice",
        "reshape",
        "flip",
        "broadcast_to",
        "sum",
        "mean",
        "max_reduce",
    ]
    .into_iter()
    .chain(["matmul", "linear", "softmax", "layer_norm", "cast", "where", "take", "gather"])
    {
        assert!(names.get(name).is_some_and(|&count| count > 5), "{name}: {names:?}");
    }
    let differentiable = programs.iter().filter(|p| p.is_differentiable()).count();
    assert!(differentiable > 180, "{differentiable}");
    // The same seed is the same program.
    assert_eq!(draw::program(&mut Draw::new(7)).to_string(), programs[7].to_string());
}

#[test]
fn a_program_that_fails_is_made_smaller_until_every_operation_is_needed() {
    // What fails here is a program in which something is a softmax.
    let seed = (0..).find(|&seed| {
        let program = draw::program(&mut Draw::new(seed));
        program.names().any(|name| name == "softmax") && program.len() > 20
    });
    let mut program = draw::program(&mut Draw::new(seed.unwrap()));
    let fails = |program: &Program| program.names().any(|name| name == "softmax");
    while let Some(smaller) = program.smaller().into_iter().find(fails) {
        program = smaller;
    }
    assert_eq!(program.len(), 1, "{program}");
    assert!(program.to_string().contains("softmax(a, axis = "), "{program}");
}
