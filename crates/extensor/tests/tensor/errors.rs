//! What is refused: always an error with one sentence, never a panic, in the release build too.

use extensor::ops::params::Params;
use extensor::ops::{catalogue, operation};
use extensor::{DType, Error, Key, Result, Tensor, tensor};
use std::collections::BTreeSet;

const F32: DType = DType::F32;

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, F32).expect("a small tensor")
}

/// Every call here fails, with this sentence.
fn refused() -> Vec<(Result<Tensor>, &'static str)> {
    let (vector, matrix) = (zeros(&[3]), zeros(&[2, 3]));
    let (mask, ints) = (tensor([true, false, true]), tensor([1i64, 2, 3]));
    let value = |result: Result<f32>| result.map(Tensor::scalar);
    let call = |name: &str, inputs: &[&Tensor], params: Params| {
        let outputs = catalogue::find(name)?.call(inputs, &params)?;
        Ok(outputs[0].clone())
    };
    let most = usize::MAX;
    vec![
        // shapes that cannot be
        (
            Tensor::zeros([most, 2], F32),
            "zeros: shape [18446744073709551615, 2] has more elements than memory can address",
        ),
        (
            Tensor::ones([1 << 40, 1 << 40], F32),
            "ones: shape [1099511627776, 1099511627776] has more elements than memory can address",
        ),
        (
            Tensor::full([most], 1.0, DType::U8),
            "full: shape [18446744073709551615] has more elements than memory can address",
        ),
        (
            Tensor::eye(1 << 40, 1 << 40, F32),
            "eye: shape [1099511627776, 1099511627776] has more elements than memory can address",
        ),
        (
            Tensor::from_vec(vec![1.0], [most, 2]),
            "from_vec: shape [18446744073709551615, 2] has more elements than memory can address",
        ),
        (
            Key::new(1).normal([most, 3], F32),
            "normal: shape [18446744073709551615, 3] has more elements than memory can address",
        ),
        (Tensor::ones([1 << 45], DType::F64), "ones: no memory for 281474976710656 bytes"),
        (Tensor::zeros([1 << 45], DType::F64), "zeros: no memory for 281474976710656 bytes"),
        (
            extensor::ops::broadcast_to(&vector, [1i64 << 40, 1 << 40, 3]),
            "broadcast_to: shape [1099511627776, 1099511627776, 3] has more elements than memory can address",
        ),
        (
            extensor::ops::tile(&vector, [i64::MAX]),
            "tile: shape [18446744073709551615] has more elements than memory can address",
        ),
        // numbers of values
        (
            Tensor::from_vec(vec![1.0; 5], [2, 3]),
            "from_vec: 5 values do not fill shape [2, 3], which has 6",
        ),
        (
            Tensor::from_slice(&[1u8; 0], []),
            "from_slice: 0 values do not fill shape [], which has 1",
        ),
        (
            extensor::ops::reshape(&matrix, [4, 2]),
            "reshape: x has shape [2, 3], expected 8 elements to fill [4, 2]",
        ),
        (
            extensor::ops::reshape(&matrix, [-1, -1]),
            "reshape: shape is [-1, -1], expected at most one -1",
        ),
        (
            extensor::ops::reshape(&matrix, [-2, 3]),
            "reshape: shape is [-2, 3], expected sizes of at least 0",
        ),
        (
            extensor::ops::reshape(&matrix, [i64::MAX, 4]),
            "reshape: shape [9223372036854775807, 4] has more elements than memory can address",
        ),
        (
            extensor::ops::broadcast_to(&vector, [-1, 3]),
            "broadcast_to: shape is [-1, 3], expected sizes of at least 0",
        ),
        // parameters
        (
            Tensor::arange(0.0, 1.0, 0.0, F32),
            "arange: step is 0, expected a finite number other than 0",
        ),
        (
            Tensor::arange(0.0, f64::INFINITY, 1.0, F32),
            "arange: stop is inf, expected a finite number",
        ),
        (
            Tensor::arange(0.0, 1e30, 1e-3, F32),
            "arange: step is 0.001, expected a step that gives fewer elements",
        ),
        (
            Tensor::arange(0.0, 300.0, 1.0, DType::U8),
            "arange: value is 299.0, expected a whole number that u8 can hold",
        ),
        (
            Tensor::full([2], 0.5, DType::I32),
            "full: value is 0.5, expected a whole number that i32 can hold",
        ),
        (
            Tensor::full([2], -1.0, DType::U8),
            "full: value is -1.0, expected a whole number that u8 can hold",
        ),
        (
            Tensor::full([2], f64::NAN, DType::I8),
            "full: value is NaN, expected a whole number that i8 can hold",
        ),
        (
            Tensor::linspace(0.0, 1.0, 3, DType::I8),
            "linspace: the result has dtype i8, expected a float type (f16, bf16, f32, f64)",
        ),
        (
            Key::new(1).uniform([2], 1.0, 0.0, F32),
            "uniform: low, high is 1, 0, expected finite numbers, the first not above the second",
        ),
        (Key::new(1).integers([2], 0), "integers: high is 0, expected a number from 1 to 2^63 - 1"),
        (
            extensor::ops::slice(&vector, 0, 0, 2, 0),
            "slice: step is 0, expected a whole number other than 0",
        ),
        (
            extensor::ops::pad(&vector, [(-1, 0)], 0.0),
            "pad: pads is [(-1, 0)], expected numbers of at least 0",
        ),
        // axes and indices
        (extensor::ops::sum(&matrix, [2]), "sum: axis 2 is out of range for 2 dimensions"),
        (extensor::ops::sum(&matrix, [0, -2]), "sum: axis -2 is named twice"),
        (extensor::ops::transpose(&matrix, [0, 0]), "transpose: axis 0 is named twice"),
        (
            extensor::ops::flip(&matrix, [i64::MIN]),
            "flip: axis -9223372036854775808 is out of range for 2 dimensions",
        ),
        (extensor::ops::cumsum(&zeros(&[]), 0), "cumsum: axis 0 is out of range for 0 dimensions"),
        (
            extensor::ops::take(&vector, &tensor([3i64]), 0),
            "take: index 3 is out of range for axis 0 of size 3",
        ),
        (
            extensor::ops::take(&vector, &tensor([u64::MAX]), 0),
            "take: index 9223372036854775807 is out of range for axis 0 of size 3",
        ),
        (
            extensor::ops::embedding(&matrix, &tensor([-1i8])),
            "embedding: index -1 is out of range for axis 0 of size 2",
        ),
        (value(matrix.get(&[1, 3])), "get: index 3 is out of range for axis 1 of size 3"),
        (value(matrix.get(&[1])), "get: index is [1], expected 2 numbers, one for each axis"),
        (value(matrix.item()), "item: the tensor has shape [2, 3], expected one element"),
        (
            extensor::ops::max_reduce(&zeros(&[0, 3]), [0]),
            "max_reduce: there is no such element in an empty axis (shape [0, 3])",
        ),
        // dtypes
        (value(ints.item()), "item: the tensor has dtype i64, expected f32"),
        (
            extensor::ops::add(&vector, &ints),
            "add: dtypes f32 and i64 do not mix; cast one of them",
        ),
        (
            extensor::ops::add(&tensor([1u64]), &tensor([1i8])),
            "add: dtypes u64 and i8 do not mix; cast one of them",
        ),
        (
            extensor::ops::add(&mask, &mask),
            "add: a has dtype bool, expected a number type (not bool)",
        ),
        (
            extensor::ops::exp(&ints),
            "exp: x has dtype i64, expected a float type (f16, bf16, f32, f64)",
        ),
        (extensor::ops::logical_not(&vector), "logical_not: x has dtype f32, expected bool"),
        (
            extensor::ops::floor_divide(&ints, &tensor(0i64)),
            "floor_divide: a whole number is divided by zero",
        ),
        (
            extensor::ops::power(&ints, &tensor(-1i64)),
            "power: exponent is below 0 somewhere, expected none below 0, the base being of dtype i64",
        ),
        // shapes that do not fit
        (
            extensor::ops::add(&vector, &zeros(&[2])),
            "add: shapes [3] and [2] do not broadcast: each pair of sizes, from the last axis on, must be equal or one of them 1",
        ),
        (
            extensor::ops::matmul(&matrix, &matrix),
            "matmul: b has shape [2, 3], expected 3 rows, as many as a of shape [2, 3] has columns",
        ),
        (
            extensor::ops::exp_backward(&vector, &matrix),
            "exp_backward: grad_output has shape [3], expected [2, 3]",
        ),
        (
            extensor::ops::exp_backward(&ints, &vector),
            "exp_backward: grad_output has dtype i64, expected f32",
        ),
        // by name
        (call("exq", &[&vector], Params::new()), "there is no operation \"exq\" in the catalogue"),
        (call("exp", &[], Params::new()), "exp: got inputs (0 tensors), expected (x)"),
        (
            call("exp", &[&vector], Params::new().with("base", 2)),
            "exp: has no parameter \"base\"; it has none",
        ),
        (
            call("clip", &[&vector], Params::new().with("min", "low")),
            "clip: min is \"low\", expected a number",
        ),
    ]
}

#[test]
fn what_cannot_be_done_is_an_error_with_one_sentence() {
    let mut wrong = Vec::new();
    for (result, want) in refused() {
        match result {
            Ok(value) => {
                wrong.push(format!("{want}\n  was not refused: {}{}", value.dtype(), value.shape()))
            }
            Err(error) if error.to_string() != want => {
                wrong.push(format!("{want}\n  is said as: {error}"))
            }
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_kind_of_error_is_seen_at_least_once() {
    let kind = |error: &Error| {
        let text = format!("{error:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_string()
    };
    let mut seen: BTreeSet<String> =
        refused().iter().filter_map(|(result, _)| result.as_ref().err().map(kind)).collect();
    seen.extend(not_differentiable().err().as_ref().map(kind));
    let all = [
        "Shape",
        "Broadcast",
        "DType",
        "MixedDTypes",
        "AxisOutOfRange",
        "RepeatedAxis",
        "IndexOutOfRange",
        "Length",
        "Overflow",
        "OutOfMemory",
        "Parameter",
        "Empty",
        "DivisionByZero",
        "NotDifferentiable",
        "Inputs",
        "UnknownParameter",
        "UnknownOperation",
    ];
    let missing: Vec<&&str> = all.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {seen:?}");
}

/// Asks for the gradient of an index.
fn not_differentiable() -> Result<()> {
    let (x, index) = (zeros(&[3]), tensor([0i64, 1]));
    let op = catalogue::find("take")?.operation(&Params::new())?;
    let y = operation::apply(&*op, &[&x, &index])?;
    operation::backward(&*op, &[&y[0]], &[&x, &index], &[&y[0]], &[true, true])?;
    Ok(())
}

#[test]
fn a_gradient_that_does_not_exist_is_refused_by_name() {
    let said = not_differentiable().unwrap_err().to_string();
    let want = "take: cannot be differentiated with respect to index: it is an index, a mask or a constant";
    assert_eq!(said, want);
    let op = catalogue::find("isnan").unwrap().operation(&Params::new()).unwrap();
    let x = zeros(&[2]);
    let found = operation::backward(&*op, &[&x], &[&x], &[&x], &[true]);
    let said = found.unwrap_err().to_string();
    assert_eq!(
        said,
        "isnan: cannot be differentiated with respect to x: the operation has no derivative"
    );
}

#[test]
fn a_sentence_has_one_line_and_names_its_operation_first() {
    for (result, _) in refused() {
        let Err(error) = result else { continue };
        let text = error.to_string();
        assert!(!text.contains('\n') && !text.ends_with('.') && text.len() < 200, "{text}");
        let named = text.split(':').next().is_some_and(|op| !op.contains(' '));
        assert!(named || text.starts_with("there is no operation"), "{text}");
    }
}

#[test]
fn every_operation_refuses_what_its_record_says_it_must() {
    for record in catalogue::CATALOGUE {
        let mut bad = extensor::ops::samples::Bad::default();
        (record.errors)(&mut bad);
        for call in bad.finish() {
            let inputs: Vec<&Tensor> = call.inputs.iter().collect();
            match record.call(&inputs, &call.params) {
                Ok(_) => panic!("{}: {} was not refused", record.name, call.message),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(call.message), "{text}\n{}", call.message);
                }
            }
        }
    }
}
