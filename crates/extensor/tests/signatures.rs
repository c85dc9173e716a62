//! What a record says of an explicit backward function is what the function takes.

use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::record::{Kind, Record};
use std::collections::BTreeMap;
use std::path::Path;

fn read(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => read(&path, text),
            false => *text += &std::fs::read_to_string(&path).unwrap(),
        }
    }
}

/// The parts of a text that commas separate, except those in brackets of any kind.
fn parts(text: &str) -> Vec<String> {
    let (mut depth, mut all) = (0, vec![String::new()]);
    for c in text.chars() {
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        match c {
            ',' if depth == 0 => all.push(String::new()),
            _ => all.last_mut().unwrap().push(c),
        }
    }
    let trimmed = all.iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    trimmed.filter(|part| !part.is_empty()).collect()
}

/// What is between the bracket that `text` starts with and the one that closes it.
fn bracketed(text: &str) -> &str {
    let (open, mut depth) = (text.chars().next().unwrap(), 0);
    let close = if open == '(' { ')' } else { '}' };
    for (at, c) in text.char_indices() {
        depth += i32::from(c == open) - i32::from(c == close);
        if depth == 0 {
            return &text[1..at];
        }
    }
    panic!("{open} is not closed");
}

/// What stands for all parameters of a function that a macro defines.
const MORE: &str = "$parameters";

/// Names and types of a function's arguments; of several in an array, each by itself.
fn arguments(text: &str) -> Vec<(String, String)> {
    // What a macro takes any number of comes last: the parameters.
    let (text, more) = text.split_once("$(,").map_or((text, None), |(text, _)| (text, Some(MORE)));
    let one = |part: String| {
        let (name, of) = part.split_once(':').unwrap();
        let names = name.trim().trim_matches(['[', ']']);
        parts(names).into_iter().map(|name| (name, of.trim().to_string())).collect::<Vec<_>>()
    };
    let more = more.map(|more| (more.to_string(), String::new()));
    parts(text).into_iter().flat_map(one).chain(more).collect()
}

/// The sources of the operations: their backward functions, and the fields of their options.
struct Sources {
    /// By name. Those that a macro defines are all called `$backward`.
    functions: Vec<(String, Vec<(String, String)>)>,
    options: BTreeMap<String, Vec<String>>,
}

impl Sources {
    fn read() -> Sources {
        let mut text = String::new();
        for folder in ["src/ops", "src/tensor"] {
            read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut text);
        }
        let functions = text.split("pub fn ").skip(1).filter_map(|rest| {
            let at = rest.find('(')?;
            let name = rest[..at].split('<').next()?;
            name.ends_with("backward")
                .then(|| (name.to_string(), arguments(bracketed(&rest[at..]))))
        });
        let blocks: Vec<&str> = text.split("pub struct ").collect();
        let options = blocks.windows(2).filter_map(|pair| {
            let (before, rest) = (pair[0], pair[1]);
            let (head, name) =
                (rest.find('{')?, rest.split(|c: char| !c.is_alphanumeric()).next()?);
            if !(name.ends_with("Options") || name == "Over") {
                return None;
            }
            let exactly = rest.split_once("exactly {").map_or("", |(_, rest)| rest);
            let exactly = exactly.split('}').next()?;
            let lines = bracketed(&rest[head..]).lines().chain(exactly.lines()).map(str::trim);
            let fields = lines.filter(|line| !line.starts_with("//"));
            let fields = fields.filter_map(|line| Some(line.split_once(':')?.0));
            // What all losses have is added by their macro.
            let loss = before.rsplit('}').next()?.contains("loss_options!");
            let fields = fields.chain(loss.then_some("reduction"));
            let fields = fields.map(|field| field.trim_start_matches("pub ").to_string());
            Some((name.to_string(), fields.collect()))
        });
        Sources { functions: functions.collect(), options: options.collect() }
    }

    /// The fields of the options that an argument of this type takes.
    fn fields(&self, of: &str) -> &[String] {
        let inner = of.trim_start_matches("impl Into<").trim_end_matches('>');
        let name = inner.split(['<', ' ']).next().unwrap();
        self.options.get(name).map_or(&[], Vec::as_slice)
    }

    /// What is wrong with a record, given its function's arguments.
    fn disagreement(&self, record: &Record, taken: &[(String, String)]) -> Result<(), String> {
        let signature = record.backward.unwrap();
        let together: Vec<String> =
            taken.iter().flat_map(|(_, of)| self.fields(of).to_vec()).collect();
        let options = |of: &str| !self.fields(of).is_empty();
        let open = taken.iter().any(|(name, _)| name == MORE);
        let mut rest = taken.iter().filter(|(name, of)| name != MORE && !options(of));
        for argument in signature.arguments {
            let name = argument.name;
            // Options have names of their own: in which order they are listed does not matter.
            let optional = matches!(argument.kind, Kind::Parameter | Kind::Input);
            if optional && together.iter().any(|field| field == name) {
                continue;
            }
            if open && argument.kind == Kind::Parameter {
                continue;
            }
            let Some((given, of)) = rest.next() else {
                return Err(format!("the function does not take {name}"));
            };
            // What a macro leaves open it fills in from the same word in the record.
            if given != name && !given.starts_with('$') {
                return Err(format!("the function takes {given} where the record says {name}"));
            }
            let fits = match argument.kind {
                Kind::GradOutputs => of.starts_with("&[") && of.contains("Tensor"),
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
}

#[test]
fn a_record_lists_the_arguments_that_the_backward_function_takes() {
    let sources = Sources::read();
    let mut by_hand = 0;
    for record in CATALOGUE {
        let Some(signature) = record.backward else { continue };
        let named = |name: &str| {
            let all = sources.functions.iter().filter(move |(n, _)| n == name);
            all.map(|(_, taken)| sources.disagreement(record, taken)).collect::<Vec<_>>()
        };
        let own = named(signature.name);
        by_hand += own.len();
        match &own[..] {
            [verdict] => assert_eq!(*verdict, Ok(()), "{signature}"),
            [] => assert!(named("$backward").contains(&Ok(())), "no function is {signature}"),
            _ => panic!("{} is defined twice", signature.name),
        }
    }
    assert!(by_hand > 60, "{by_hand} functions were found");
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
                Kind::Output => true,
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
