//! What a record says of an explicit backward function is what the function takes.

use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::record::{Kind, Record};
use extensor::ops::{AttentionOptions, BatchNormOptions, ConvOptions, CrossEntropyOptions};
use extensor::ops::{BinaryCrossEntropyOptions, GaussianNllOptions, KlDivergenceOptions};
use extensor::ops::{CdistOptions, CosineSimilarityOptions, NormalizeOptions};
use extensor::ops::{Conv3dOptions, InterpolateOptions, Pool3dOptions};
use extensor::ops::{CtcOptions, GridSampleOptions};
use extensor::ops::{DiagonalOptions, FocalOptions, HuberOptions, PoolOptions, SmoothL1Options};
use extensor::ops::{
    LogitsOptions, MarginRankingOptions, NllOptions, PoissonNllOptions, ScatterOptions,
    TriangularOptions,
};
use extensor::over;
use std::fmt::Debug;

/// The parts of a text that commas separate, except those in brackets of any kind.
fn parts(text: &str) -> Vec<String> {
    let (mut depth, mut all) = (0, vec![String::new()]);
    for c in text.chars() {
        depth += i32::from("([<".contains(c)) - i32::from(")]>".contains(c));
        match c {
            ',' if depth == 0 => all.push(String::new()),
            _ => all.last_mut().unwrap().push(c),
        }
    }
    all.into_iter().map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

/// Names and types of a function's arguments; of several in an array, each by itself.
fn arguments(signature: &str) -> Vec<(String, String)> {
    let (_, rest) = signature.split_once('(').unwrap();
    let (rest, _) = rest.rsplit_once(") -> Result<").unwrap();
    let one = |part: String| {
        let (name, of) = part.split_once(": ").unwrap();
        let names = parts(name.trim_matches(['[', ']']));
        names.into_iter().map(|name| (name, of.to_string())).collect::<Vec<_>>()
    };
    parts(rest).into_iter().flat_map(one).collect()
}

/// The names of the fields that a value of options prints.
fn fields(options: &dyn Debug) -> Vec<String> {
    let text = format!("{options:#?}");
    let own = text.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    own.filter_map(|line| Some(line.trim().split_once(": ")?.0.to_string())).collect()
}

/// The options that an argument of this type stands for; none if it is a thing of its own.
fn options(of: &str) -> Vec<String> {
    let known: &[(&str, &dyn Debug)] = &[
        ("AttentionOptions", &AttentionOptions::new()),
        ("BatchNormOptions", &BatchNormOptions::new()),
        ("BinaryCrossEntropyOptions", &BinaryCrossEntropyOptions::new()),
        ("GaussianNllOptions", &GaussianNllOptions::new()),
        ("KlDivergenceOptions", &KlDivergenceOptions::new()),
        ("LogitsOptions", &LogitsOptions::new()),
        ("NllOptions", &NllOptions::new()),
        ("MarginRankingOptions", &MarginRankingOptions::new()),
        ("PoissonNllOptions", &PoissonNllOptions::new()),
        ("CdistOptions", &CdistOptions::new()),
        ("CosineSimilarityOptions", &CosineSimilarityOptions::new()),
        ("NormalizeOptions", &NormalizeOptions::new()),
        ("Conv3dOptions", &Conv3dOptions::new()),
        ("ConvOptions", &ConvOptions::new()),
        ("CrossEntropyOptions", &CrossEntropyOptions::new()),
        ("CtcOptions", &CtcOptions::new()),
        ("DiagonalOptions", &DiagonalOptions::new()),
        ("FocalOptions", &FocalOptions::new()),
        ("GridSampleOptions", &GridSampleOptions::new()),
        ("HuberOptions", &HuberOptions::new()),
        ("InterpolateOptions", &InterpolateOptions::new()),
        ("Pool3dOptions", &Pool3dOptions::new(2)),
        ("PoolOptions", &PoolOptions::new(2)),
        ("ScatterOptions", &ScatterOptions::new()),
        ("SmoothL1Options", &SmoothL1Options::new()),
        ("TriangularOptions", &TriangularOptions::new()),
        ("Over", &over(0)),
    ];
    let inner = of.strip_prefix("impl Into<").and_then(|rest| rest.strip_suffix('>')).unwrap_or(of);
    let name = inner.split('<').next().unwrap();
    let found = known.iter().find(|(known, _)| *known == name);
    assert!(found.is_some() || !of.contains("Options"), "{of} is not known here");
    found.map_or(Vec::new(), |(_, value)| fields(*value))
}

/// What is wrong with a record, given what its function takes.
fn disagreement(record: &Record, taken: &[(String, String)]) -> Result<(), String> {
    // What an argument with options says by itself has its name: `axis: impl Into<Over>`.
    let with_options = taken.iter().filter(|(_, of)| !options(of).is_empty());
    let together: Vec<String> =
        with_options.flat_map(|(name, of)| [options(of), vec![name.clone()]].concat()).collect();
    let mut rest = taken.iter().filter(|(_, of)| options(of).is_empty());
    for argument in record.backward.unwrap().arguments {
        let name = argument.name;
        // Options have names of their own: in which order they are listed does not matter.
        let optional = matches!(argument.kind, Kind::Parameter | Kind::Input);
        if optional && together.iter().any(|field| field == name) {
            continue;
        }
        let Some((given, of)) = rest.next() else {
            return Err(format!("the function does not take {name}"));
        };
        if given != name {
            return Err(format!("the function takes {given} where the record says {name}"));
        }
        let fits = match argument.kind {
            Kind::GradOutputs | Kind::Outputs => of.starts_with("&[") && of.contains("Tensor"),
            Kind::GradOutput | Kind::Output | Kind::Auxiliary => of.contains("&Tensor"),
            Kind::Input => of.contains("Tensor"),
            Kind::Shape(_) | Kind::Sizes => of == "&[usize]",
            Kind::DType(_) => of == "DType",
            Kind::Parameter => !of.contains("Tensor"),
        };
        if !fits {
            return Err(format!("{name} is {of} in the function, {:?} here", argument.kind));
        }
    }
    match rest.next() {
        Some((name, _)) => Err(format!("the record does not list {name}")),
        None => Ok(()),
    }
}

#[test]
fn a_record_lists_the_arguments_that_the_backward_function_takes() {
    let mut functions = 0;
    for record in CATALOGUE {
        let source = record.sources().backward;
        assert_eq!(source.is_some(), record.backward.is_some(), "{}", record.name);
        let Some(source) = source else { continue };
        functions += 1;
        let verdict = disagreement(record, &arguments(source.signature));
        assert_eq!(verdict, Ok(()), "{}: {}", record.backward_signature(), source.signature);
    }
    assert!(functions > 100, "{functions} functions were found");
}

#[test]
fn the_arguments_of_a_backward_function_are_things_that_the_record_knows() {
    for record in CATALOGUE {
        let Some(signature) = record.backward else {
            assert!(!record.is_differentiable(), "{}", record.name);
            continue;
        };
        assert_eq!(signature.name, format!("{}_backward", record.name));
        let input = |name: &str| record.inputs.iter().any(|input| input.name == name);
        let [first, rest @ ..] = signature.arguments else { panic!("{signature}") };
        assert!(matches!(first.kind, Kind::GradOutput | Kind::GradOutputs), "{signature}");
        let mut auxiliary = 0;
        for argument in rest {
            let known = match argument.kind {
                Kind::GradOutput | Kind::GradOutputs => false,
                Kind::Input => input(argument.name),
                Kind::Output | Kind::Outputs => true,
                Kind::Auxiliary => {
                    auxiliary += 1;
                    auxiliary <= record.auxiliary
                }
                Kind::Shape(name) | Kind::DType(name) => input(name),
                Kind::Sizes => record.inputs.len() == 1,
                Kind::Parameter => record.params.iter().any(|p| p.name == argument.name),
            };
            assert!(known, "{signature}: {argument:?}");
        }
        assert!(rest.is_sorted_by_key(|a| a.kind == Kind::Parameter), "{signature}");
        assert_eq!(record.backward_signature(), signature.to_string());
    }
}
