//! One random call: run forward and backward, in any layout, on any number of threads, and compared
//! with the reference.

use crate::array::{Array, Expected, Wanted, round_to, unravel};
use crate::draw::{Draw, Plan};
use crate::generate;
use crate::reference::{self, Call};
use extensor::ops::operation::{self, Operation};
use extensor::ops::record::{Family, Record};
use extensor::{DType, Key, Result, Tensor, threads};

/// A result, or a sentence that says what went wrong.
type Checked<T> = std::result::Result<T, String>;

/// A random call with all that is needed to run it.
pub struct Case {
    record: &'static Record,
    seed: u64,
    pub call: Call,
    op: Box<dyn Operation>,
    /// The inputs as they lie row by row, and in another layout.
    plain: Vec<Tensor>,
    laid: Vec<Tensor>,
    draw: Draw,
}

/// Gradients to run backward with, in both layouts.
struct Cotangents {
    arrays: Vec<Array>,
    plain: Vec<Tensor>,
    laid: Vec<Tensor>,
}

impl Case {
    /// The call that this seed stands for.
    pub fn new(record: &'static Record, seed: u64) -> Case {
        let name = record.name.bytes().fold(0u64, |h, b| (h << 5) ^ (h >> 59) ^ u64::from(b));
        let mut draw = Draw::new(Key::new(seed).fold_in(name));
        let mut call = generate::call(&mut draw, record);
        let mut laid = Vec::new();
        for array in &mut call.inputs {
            // Repeated values of small arrays only: the others must stay apart.
            // (A matrix with repeated rows has no inverse.)
            let alone = record.family == Family::Linalg;
            let expanded = if !alone && draw.chance(4) {
                draw.expand(array)
            } else {
                vec![false; array.shape.len()]
            };
            laid.push(Plan::draw(&mut draw, &expanded).tensor(array));
        }
        let plain = call.inputs.iter().map(row_major).collect();
        let op = record.operation(&call.params);
        let op = op.unwrap_or_else(|error| panic!("{call:?}: {error}"));
        Case { record, seed, call, op, plain, laid, draw }
    }

    /// Says which call it was.
    fn fail<T>(&self, what: impl std::fmt::Display) -> Checked<T> {
        let inputs: Vec<String> =
            self.call.inputs.iter().map(|x| format!("{}{:?}", x.dtype, x.shape)).collect();
        let params: Vec<String> =
            self.call.params.iter().map(|(n, v)| format!("{n} = {v}")).collect();
        let all: Vec<String> = inputs.into_iter().chain(params).collect();
        Err(format!("{}({}), seed {}: {what}", self.record.name, all.join(", "), self.seed))
    }

    fn outputs(&self, inputs: &[Tensor], count: usize) -> Result<Vec<Tensor>> {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = threads::with(count, || operation::apply(&*self.op, &inputs));
        outputs.map(|outputs| outputs.into_iter().collect())
    }

    fn forward(&self, inputs: &[Tensor], count: usize) -> Checked<Vec<Tensor>> {
        self.outputs(inputs, count).or_else(|error| self.fail(error))
    }

    /// Whether input number `i` has a gradient.
    fn wanted(&self) -> Vec<bool> {
        let float = |i: usize| self.call.inputs[i].dtype.is_float();
        let wanted = |i: usize| self.record.differentiable_input(i) && float(i);
        (0..self.call.inputs.len()).map(wanted).collect()
    }

    /// Random gradients for the outputs, unless there is nothing to differentiate.
    fn cotangents(&mut self, outputs: &[Tensor]) -> Option<Cotangents> {
        let outputs = &outputs[..self.record.results(outputs.len())];
        if !self.wanted().contains(&true) || !outputs.iter().all(|y| y.dtype().is_float()) {
            return None;
        }
        let mut found = Cotangents { arrays: vec![], plain: vec![], laid: vec![] };
        for y in outputs {
            let mut g = self.draw.array(y.shape(), y.dtype(), [-2.0, 2.0]);
            if self.draw.chance(2) {
                self.draw.sprinkle(&mut g, &[0.0, 1.0]);
            }
            let none = vec![false; g.shape.len()];
            found.laid.push(Plan::draw(&mut self.draw, &none).tensor(&g));
            found.plain.push(row_major(&g));
            found.arrays.push(g);
        }
        Some(found)
    }

    /// The gradients; a rule is given no values but those its record says it needs.
    fn backward(
        &self,
        grads: &[Tensor],
        inputs: &[Tensor],
        outputs: &[Tensor],
        wanted: &[bool],
        count: usize,
    ) -> Checked<Vec<Option<Tensor>>> {
        let shown = |x: &Tensor, shown: bool| {
            if shown { Ok(x.clone()) } else { operation::placeholder(x.shape(), x.dtype()) }
        };
        let run = || {
            let needs = self.record.needs;
            // What has no derivative (an index, a mask) is always there.
            let of = |(i, x): (usize, &Tensor)| {
                shown(x, needs.inputs() || !self.record.differentiable_input(i))
            };
            let inputs: Vec<Tensor> = inputs.iter().enumerate().map(of).collect::<Result<_>>()?;
            let results = self.record.results(outputs.len());
            let outputs = outputs.iter().enumerate();
            let outputs: Vec<Tensor> =
                outputs.map(|(k, y)| shown(y, needs.output(k, results))).collect::<Result<_>>()?;
            let [grads, inputs, outputs] = [grads, &inputs[..], &outputs[..]]
                .map(|list| list.iter().collect::<Vec<&Tensor>>());
            let grads = threads::with(count, || {
                operation::backward(&*self.op, &grads, &inputs, &outputs, wanted)
            })?;
            Ok(grads.into_iter().collect())
        };
        run().or_else(|error: extensor::Error| self.fail(format!("backward: {error}")))
    }

    /// Forward and backward agree with the reference.
    pub fn agrees(mut self) -> Checked<()> {
        let outputs = self.forward(&self.laid, 1)?;
        let expected = reference::forward(&self.call);
        if outputs.len() != expected.len() {
            return self.fail(format!("{} outputs, not {}", outputs.len(), expected.len()));
        }
        for (output, expected) in outputs.iter().zip(&expected) {
            compare(output, expected).or_else(|what| self.fail(format!("forward: {what}")))?;
        }
        let Some(cotangents) = self.cotangents(&outputs) else {
            return Ok(());
        };
        let wanted = self.wanted();
        let grads = self.backward(&cotangents.laid, &self.laid, &outputs, &wanted, 1)?;
        let infinite = |x: &Array| x.dtype.is_float() && x.floats().iter().any(|v| v.is_infinite());
        if !self.call.inputs.iter().any(infinite) {
            let arrays: Vec<Array> = outputs.iter().map(Array::read).collect();
            let expected = reference::backward(&self.call, &cotangents.arrays, &arrays);
            for (i, wanted) in wanted.iter().enumerate() {
                if !wanted {
                    continue;
                }
                let (Some(grad), Some(expected)) = (&grads[i], &expected[i]) else {
                    return self.fail(format!("no gradient for input {i}"));
                };
                compare(grad, expected)
                    .or_else(|what| self.fail(format!("gradient for input {i}: {what}")))?;
            }
        }
        // Each gradient is the same whichever others are wanted.
        let some: Vec<bool> = wanted.iter().map(|&w| w && self.draw.chance(2)).collect();
        let again = self.backward(&cotangents.laid, &self.laid, &outputs, &some, 1)?;
        for (i, &wanted) in some.iter().enumerate() {
            match (&grads[i], &again[i]) {
                (Some(a), Some(b)) if wanted && bits(a) == bits(b) => {}
                (_, None) if !wanted => {}
                _ => return self.fail(format!("gradient for input {i}, {some:?} wanted")),
            }
        }
        Ok(())
    }

    /// Outputs and gradients have the same bits under both of two circumstances.
    fn same(mut self, what: &str, ways: &[(bool, usize)]) -> Checked<()> {
        let inputs = |laid: bool| if laid { &self.laid } else { &self.plain };
        let (laid, count) = ways[0];
        let outputs = self.forward(inputs(laid), count)?;
        for &(laid, count) in &ways[1..] {
            let again = self.forward(inputs(laid), count)?;
            if outputs.iter().map(bits).ne(again.iter().map(bits)) {
                return self.fail(format!("forward depends on {what}"));
            }
        }
        let Some(cotangents) = self.cotangents(&outputs) else {
            return Ok(());
        };
        let wanted = self.wanted();
        let run = |&(laid, count): &(bool, usize)| {
            let (grads, inputs) = if laid {
                (&cotangents.laid, &self.laid)
            } else {
                (&cotangents.plain, &self.plain)
            };
            let grads = self.backward(grads, inputs, &outputs, &wanted, count)?;
            Checked::Ok(grads.iter().map(|g| g.as_ref().map(bits)).collect::<Vec<_>>())
        };
        let first = run(&ways[0])?;
        for way in &ways[1..] {
            if run(way)? != first {
                return self.fail(format!("backward depends on {what}"));
            }
        }
        Ok(())
    }

    /// 1, 2 and 4 threads give the same bits.
    pub fn ignores_threads(self) -> Checked<()> {
        self.same("the number of threads", &[(true, 1), (true, 2), (true, 4)])
    }

    /// Row by row and in another layout the same values give the same bits.
    pub fn ignores_layout(self) -> Checked<()> {
        self.same("the layout in memory", &[(false, 1), (true, 1)])
    }
}

fn row_major(array: &Array) -> Tensor {
    crate::array::tensor_of(&array.values, &array.shape, array.dtype)
}

/// Shape, dtype and the exact values; all NaNs are one.
fn bits(x: &Tensor) -> (Vec<usize>, DType, Vec<i128>) {
    let array = Array::read(x);
    let values = match &array.values {
        crate::array::Values::Integers(v) => v.clone(),
        crate::array::Values::Floats(v) => {
            let one = |x: &f64| {
                if x.is_nan() { -1 } else { i128::from(x.to_bits()) }
            };
            v.iter().map(one).collect()
        }
    };
    (array.shape, array.dtype, values)
}

/// Says where a tensor is not what was expected.
fn compare(got: &Tensor, expected: &Expected) -> Checked<()> {
    if got.dtype() != expected.dtype || *got.shape() != expected.shape[..] {
        let (dtype, shape) = (expected.dtype, &expected.shape);
        return Err(format!("{}{} is not {dtype}{shape:?}", got.dtype(), got.shape()));
    }
    let got = Array::read(got);
    let wrong =
        |k: usize, text: String| Err(format!("at {:?} {text}", unravel(k, &expected.shape)));
    match &expected.values {
        Wanted::Integers(want) => {
            let found = got.integers().iter().zip(want).position(|(a, b)| a != b);
            found.map_or(Ok(()), |k| wrong(k, format!("{} is not {}", got.integers()[k], want[k])))
        }
        Wanted::Floats(want) => {
            for (k, (&got, near)) in got.floats().iter().zip(want).enumerate() {
                let round = |x: f64| round_to(x, expected.dtype);
                let (low, high) = (round(near.value - near.error), round(near.value + near.error));
                let right = if near.error == f64::INFINITY {
                    true
                } else if near.value.is_nan() {
                    got.is_nan()
                } else if near.error == 0.0 {
                    got == low
                } else if near.value.is_infinite() {
                    got == near.value
                } else if got.is_infinite() && near.value.abs() > expected.dtype.max_finite() / 64.0
                {
                    // Held within the range here, and on the way there.
                    got.is_sign_positive() == near.value.is_sign_positive()
                } else {
                    low <= got && got <= high
                };
                if !right {
                    let error = near.error;
                    return wrong(k, format!("{got:?} is not {:?} ± {error:.1e}", near.value));
                }
            }
            Ok(())
        }
    }
}
