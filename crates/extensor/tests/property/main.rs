//! Random calls of every operation of the catalogue, compared with a slow reference.
//!
//! Shapes, broadcasts, memory layouts, dtypes, parameters and values are drawn from a seed, which a
//! failure names. `EXTENSOR_PROPERTY_CASES` says how many calls of each operation are made,
//! `EXTENSOR_PROPERTY_SEED` from which seed on, and `EXTENSOR_PROPERTY_ONLY` of which operation alone.

mod activation;
mod alignments;
mod array;
mod attention;
mod bits;
mod case;
mod classes;
mod convolution;
mod distances;
mod draw;
mod dropout;
mod einsum;
mod generate;
mod linalg;
mod loss;
mod matrix;
mod meeting;
mod movement;
mod movement_calls;
mod normalization;
mod places;
mod pointwise;
mod pooling;
mod reduction;
mod reference;
mod resizing;
mod scatter;
mod selecting;
mod sorting;
mod special;
mod unary;

use case::Case;
use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::record::{Family, Record};

fn setting(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|v| v.parse().ok());
    given.unwrap_or(default)
}

/// The operation that `EXTENSOR_PROPERTY_ONLY` names, if it names one.
fn only() -> Option<&'static Record> {
    named(&std::env::var("EXTENSOR_PROPERTY_ONLY").ok()?)
        .map(Some)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The operation of this name; that there is none must not look as if all went well.
fn named(name: &str) -> Result<&'static Record, String> {
    let found = CATALOGUE.iter().copied().find(|record| record.name == name);
    found.ok_or_else(|| format!("EXTENSOR_PROPERTY_ONLY: there is no operation {name:?}"))
}

/// Makes `cases` calls of each operation of the family, or of all, and says which went wrong.
fn check(family: Option<Family>, cases: u64, check: impl Fn(Case) -> Result<(), String>) {
    let cases = setting("EXTENSOR_PROPERTY_CASES", cases);
    let first = setting("EXTENSOR_PROPERTY_SEED", 0);
    let only = only();
    let mut failures = Vec::new();
    let wanted = CATALOGUE.iter().filter(|r| family.is_none_or(|f| r.family == f));
    for record in wanted.filter(|r| only.is_none_or(|only| r.name == only.name)) {
        assert!(reference::knows(record.name), "there is no reference for {}", record.name);
        let failed = (first..first + cases).filter_map(|seed| check(Case::new(record, seed)).err());
        failures.extend(failed.take(4));
    }
    assert!(failures.is_empty(), "{} calls went wrong:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_operation_of_the_catalogue_has_a_reference() {
    let missing: Vec<&str> =
        CATALOGUE.iter().map(|r| r.name).filter(|name| !reference::knows(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_name_that_no_operation_has_is_an_error_that_says_so() {
    let error = named("sofmax").unwrap_err();
    assert_eq!(error, "EXTENSOR_PROPERTY_ONLY: there is no operation \"sofmax\"");
    assert_eq!(named("softmax").unwrap().name, "softmax");
}

#[test]
fn arithmetic_agrees_with_the_reference() {
    check(Some(Family::Arithmetic), 80, Case::agrees);
}

#[test]
fn elementwise_functions_agree_with_the_reference() {
    check(Some(Family::Elementwise), 50, Case::agrees);
}

#[test]
fn products_agree_with_the_reference() {
    check(Some(Family::Matrix), 120, Case::agrees);
}

#[test]
fn decompositions_agree_with_the_reference() {
    check(Some(Family::Linalg), 100, Case::agrees);
}

#[test]
fn reductions_agree_with_the_reference() {
    check(Some(Family::Reduction), 100, Case::agrees);
}

#[test]
fn operations_on_shapes_agree_with_the_reference() {
    check(Some(Family::Shape), 80, Case::agrees);
}

#[test]
fn activations_agree_with_the_reference() {
    check(Some(Family::Activation), 50, Case::agrees);
}

#[test]
fn convolutions_over_random_geometries_agree_with_direct_loops() {
    check(Some(Family::Convolution), 150, Case::agrees);
}

#[test]
fn pooling_over_random_geometries_agrees_with_direct_loops() {
    check(Some(Family::Pooling), 120, Case::agrees);
}

#[test]
fn normalizations_agree_with_the_reference() {
    check(Some(Family::Normalization), 120, Case::agrees);
}

#[test]
fn attention_agrees_with_the_reference() {
    check(Some(Family::Attention), 120, Case::agrees);
}

#[test]
fn dropout_agrees_with_the_reference() {
    check(Some(Family::Dropout), 60, Case::agrees);
}

#[test]
fn losses_agree_with_the_reference() {
    check(Some(Family::Loss), 100, Case::agrees);
}

#[test]
fn one_two_and_four_threads_give_the_same_bits() {
    check(None, 25, Case::ignores_threads);
}

#[test]
fn any_memory_layout_of_the_same_values_gives_the_same_bits() {
    check(None, 30, Case::ignores_layout);
}
