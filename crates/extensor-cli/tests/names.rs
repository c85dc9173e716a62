//! What others call operations is found: every public name of PyTorch's and JAX's functional API, as `tools/names.py` listed
//! them.

use extensor::ops::catalogue::{CATALOGUE, find, known_as};
use extensor_cli::beside::{BESIDE, beside};
use std::collections::HashSet;

/// Each name with what it is here, nothing where it is something that is not here.
fn settled() -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = include_str!("names.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let (name, here) = (words.next().unwrap(), words.next().unwrap());
            (name, if here == "-" { vec![] } else { here.split(',').collect() })
        })
        .collect()
}

#[test]
fn every_name_of_pytorch_and_jax_leads_to_the_operation_that_it_is_here() {
    let all = settled();
    assert!(all.len() > 1000);
    let found = all.iter().filter(|(_, here)| !here.is_empty()).count();
    assert!(found > 250, "{found}");
    for (name, here) in all {
        let own: Vec<&str> = find(name).iter().map(|record| record.name).collect();
        let others: Vec<&str> = known_as(name).map(|record| record.name).collect();
        let got = if own.is_empty() { others } else { own };
        assert_eq!(got, here, "{name}");
    }
}

#[test]
fn what_is_no_operation_is_found_beside_the_catalogue_and_under_one_name_only() {
    let mut seen = HashSet::new();
    for (path, names) in BESIDE {
        assert!(!names.is_empty(), "{path}");
        for name in *names {
            assert!(seen.insert(name), "{name} stands for two things");
            assert!(
                find(name).is_err() && known_as(name).next().is_none(),
                "{name} is an operation"
            );
            assert_eq!(beside(name), Some(*path));
        }
    }
}

#[test]
fn every_alias_is_found_by_the_hint_and_is_no_operation_that_means_something_else() {
    for record in CATALOGUE {
        for alias in record.aliases() {
            assert!(known_as(alias).any(|known| known.name == record.name), "{alias}");
            assert!(
                find(alias).is_err(),
                "{alias} is an operation, and not another name of {}",
                record.name
            );
        }
    }
}

#[test]
fn rustdoc_finds_what_the_command_line_does() {
    // `#[method]` puts `#[doc(alias)]` above each function from the same list; so every operation with another name must
    // have such a function.
    let named: HashSet<&str> =
        CATALOGUE.iter().filter(|r| !r.aliases().is_empty()).map(|r| r.name).collect();
    assert!(named.len() > 80);
    for name in named {
        assert!(find(name).unwrap().sources().function.is_some(), "{name}");
    }
}

#[test]
fn names_in_place_are_those_without_the_underscore() {
    let names = |name| known_as(name).map(|record| record.name).collect::<Vec<_>>();
    assert_eq!(names("add_"), ["add"]);
    assert_eq!(names("mul_"), ["multiply"]);
    assert!(names("_").is_empty() && names("nosuch_").is_empty());
}
