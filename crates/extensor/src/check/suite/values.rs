//! What an operation and its backward rule compute, in one dtype.

use super::call::{Terms, backward, cast_floats, describe, forward, results, wanted};
use super::precision::{Question, may_move, mixing};
use super::{Log, Verdict};
use crate::check::bits::bit_differences;
use crate::check::prepare::random_like;
use crate::check::{Arrangement, repeated};
use crate::ops::operation::{Operation, placeholder};
use crate::ops::samples::Sample;
use crate::tensor::unravel;
use crate::{DType, Error, Key, Result, Tensor, ops};

/// An operation called at a sample in some dtype.
struct Call<'a> {
    op: &'a dyn Operation,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    wanted: Vec<bool>,
    /// The gradients of the outputs.
    cotangents: Vec<Tensor>,
    /// The gradients of the inputs wanted.
    gradients: Vec<Tensor>,
}

impl<'a> Call<'a> {
    fn new(op: &'a dyn Operation, inputs: Vec<Tensor>, key: Key) -> Result<Call<'a>> {
        let outputs = forward(op, &inputs)?;
        let wanted = wanted(op, &inputs, &outputs);
        let mut call =
            Call { op, inputs, outputs, wanted, cotangents: Vec::new(), gradients: Vec::new() };
        if call.differentiable() {
            call.cotangents = random_like(key, results(op, &call.outputs))?;
            call.gradients = call.pull(&call.cotangents, &call.inputs, &call.outputs)?;
        }
        Ok(call)
    }

    fn differentiable(&self) -> bool {
        self.wanted.contains(&true)
    }

    fn pull(&self, grads: &[Tensor], inputs: &[Tensor], outputs: &[Tensor]) -> Result<Vec<Tensor>> {
        backward(self.op, grads, inputs, outputs, &self.wanted)
    }

    /// The same call again with other tensors of the same values: the same bits must come out.
    fn repeat(&self, arrange: impl Fn(&Tensor) -> Result<Tensor>) -> Result<[Verdict; 2]> {
        let arranged = |list: &[Tensor]| list.iter().map(&arrange).collect::<Result<Vec<_>>>();
        let inputs = arranged(&self.inputs)?;
        let again = forward(self.op, &inputs)?;
        let forward = bit_differences(&again, &self.outputs).map_or(Ok(()), Err);
        if !self.differentiable() {
            return Ok([forward, Ok(())]);
        }
        let (grads, outputs) = (arranged(&self.cotangents)?, arranged(&self.outputs)?);
        let again = self.pull(&grads, &inputs, &outputs)?;
        let backward = bit_differences(&again, &self.gradients).map_or(Ok(()), Err);
        Ok([forward, backward])
    }
}

pub(super) fn check(
    log: &mut Log,
    op: &dyn Operation,
    number: usize,
    sample: &Sample,
    dtype: DType,
    key: Key,
) -> Verdict {
    let label = |what: &str| format!("{}, {dtype}{what}", describe(number, sample));
    let failed = |what: &'static str| move |e: crate::Error| format!("{what}: {e}");
    let inputs = cast_floats(&sample.inputs, dtype).map_err(failed("cast"))?;
    let call = Call::new(op, inputs, key).map_err(|e| format!("in {dtype}: {e}"))?;

    log.check("runs", || label(""), as_inferred(&call));
    let mut both = |kind, what: &str, verdicts: [Verdict; 2]| {
        let [first, second] = verdicts;
        log.check(kind, || label(&format!("{what}, forward")), first);
        if call.differentiable() {
            log.check(kind, || label(&format!("{what}, backward")), second);
        }
    };
    let again = call.repeat(|x| Ok(x.clone()));
    both("repeats", "", again.map_err(failed("again"))?);
    let strided = if sample.large { &[][..] } else { &Arrangement::STRIDED[..] };
    for &arrangement in strided {
        let told_apart = |x: &Tensor| match arrangement {
            Arrangement::Transposed => x.ndim() > 1 && x.len() > 1,
            _ => x.len() > 1,
        };
        if call.inputs.iter().any(told_apart) {
            let verdicts = call.repeat(|x| arrangement.of(x));
            let verdicts = verdicts.map_err(|e| format!("{arrangement} in {dtype}: {e}"))?;
            both("arrangements", &format!(", {arrangement}"), verdicts);
        }
    }
    if !sample.large && call.inputs.iter().any(|x| repeated(x).is_some()) {
        let verdicts = expanded(&call, key).map_err(failed("broadcast"))?;
        both("arrangements", ", broadcast", verdicts);
    }
    if dtype == DType::F32 {
        let verdict = mixed(&call, key).map_err(failed("mixed dtypes"))?;
        if let Some(verdict) = verdict {
            log.check("mixed dtypes", || label(" and f64"), verdict);
        }
    }
    if dtype != DType::F64 {
        let measured = against_f64(&call, sample, dtype, key).map_err(failed("in f64"))?;
        for (what, ratio) in measured {
            log.measure("precision", || label(&format!(", {what}")), ratio);
        }
    }
    if call.differentiable() {
        let verdict = needs(&call).map_err(failed("without what is not needed"))?;
        log.check("needs", || label(""), verdict);
        log.check("gradients fit", || label(""), fit(&call, sample.smooth));
    }
    Ok(())
}

/// The outputs are what the operation said they would be.
fn as_inferred(call: &Call) -> Verdict {
    let inputs: Vec<&Tensor> = call.inputs.iter().collect();
    let specs = call.op.infer(&inputs).map_err(|e| e.to_string())?;
    if specs.len() != call.outputs.len() {
        let (said, got) = (specs.len(), call.outputs.len());
        return Err(format!("{said} outputs were announced, {got} came"));
    }
    for (spec, output) in specs.iter().zip(&call.outputs) {
        if spec.shape != *output.shape() || spec.dtype != output.dtype() {
            return Err(format!(
                "{}{} was announced, {}{} came",
                spec.dtype,
                spec.shape,
                output.dtype(),
                output.shape()
            ));
        }
    }
    Ok(())
}

/// Inputs repeated by a stride of 0 give the bits of their contiguous copies. Those are other values
/// than the sample's; if the operation refuses them it must refuse both.
fn expanded(call: &Call, key: Key) -> Result<[Verdict; 2]> {
    let views: Vec<Tensor> =
        call.inputs.iter().map(|x| repeated(x).unwrap_or_else(|| x.clone())).collect();
    let copies = views.iter().map(|x| Arrangement::Contiguous.of(x));
    let copies: Vec<Tensor> = copies.collect::<Result<_>>()?;
    let copied = Call::new(call.op, copies, key);
    let viewed = Call::new(call.op, views, key);
    Ok(match (copied, viewed) {
        (Ok(copied), Ok(viewed)) => [
            bit_differences(&viewed.outputs, &copied.outputs).map_or(Ok(()), Err),
            bit_differences(&viewed.gradients, &copied.gradients).map_or(Ok(()), Err),
        ],
        (Err(copied), Err(viewed)) if copied == viewed => [Ok(()), Ok(())],
        (copied, viewed) => {
            let word = |result: Result<Call>| result.err().map_or("fine".into(), |e| e.to_string());
            let message = format!("a copy: {}; a view: {}", word(copied), word(viewed));
            [Err(message), Ok(())]
        }
    })
}

/// Inputs of several float dtypes either are refused or promote: the bits are those of the widest
/// dtype, and each gradient has its own input's. `None` where there are not two float inputs.
fn mixed(call: &Call, key: Key) -> Result<Option<Verdict>> {
    let mut floats = (0..call.inputs.len()).filter(|&i| call.inputs[i].dtype().is_float());
    let (Some(narrow), Some(_)) = (floats.next(), floats.next()) else {
        return Ok(None);
    };
    let wide = cast_floats(&call.inputs, DType::F64)?;
    let mut inputs = wide.clone();
    inputs[narrow] = call.inputs[narrow].clone();
    let mixed = match Call::new(call.op, inputs, key) {
        Ok(mixed) => mixed,
        Err(Error::MixedDTypes { .. } | Error::DType { .. }) => return Ok(Some(Ok(()))),
        Err(other) => return Ok(Some(Err(format!("refused by another error: {other}")))),
    };
    let mut want = Call::new(call.op, wide, key)?;
    if call.wanted[narrow] {
        let slot = call.wanted[..narrow].iter().filter(|w| **w).count();
        want.gradients[slot] = ops::cast(&want.gradients[slot], DType::F32)?;
    }
    let outputs = bit_differences(&mixed.outputs, &want.outputs);
    let gradients = bit_differences(&mixed.gradients, &want.gradients);
    Ok(Some(outputs.or(gradients).map_or(Ok(()), Err)))
}

/// The errors against the `f64` operation on the same inputs: of the outputs, and of the gradients
/// from the same saved outputs.
type Measured = Vec<(String, std::result::Result<f64, String>)>;

fn against_f64(call: &Call, sample: &Sample, dtype: DType, key: Key) -> Result<Measured> {
    let wide = cast_floats(&call.inputs, DType::F64)?;
    let exact = forward(call.op, &wide)?;
    let terms = Terms::of(call.op, &wide, &exact, &call.wanted)?;
    let rounded = Sample { inputs: wide.clone(), ..sample.clone() };
    let kinks = call.op.record().kinks;
    let (smooth, moves) = (!kinks(&rounded), may_move(kinks, &rounded)?);
    let question = |answer, arguments: Vec<Tensor>, free: usize, terms| Question {
        answer,
        moved: (0..arguments.len()).map(|i| i >= free || moves).collect(),
        mixing: mixing(call.op),
        least: 0.0,
        arguments,
        terms,
        singular: false,
        sum: mixing(call.op),
        order: 0,
        dtype,
        key,
    };
    let mut measured = Vec::new();
    let values = |x: &[Tensor]| forward(call.op, x);
    let judged = question(&values, wide.clone(), wide.len(), terms.forward).judge(&call.outputs)?;
    measured.push(("forward".into(), judged));
    if !call.differentiable() {
        return Ok(measured);
    }
    // What the f64 operation's outputs have for a dtype: not always f64.
    let like = |list: &[Tensor]| {
        let pairs = list.iter().zip(&exact);
        pairs.map(|(x, y)| ops::cast(x, y.dtype())).collect::<Result<Vec<Tensor>>>()
    };
    let (x, y) = (wide.len(), wide.len() + exact.len());
    let pull = |all: &[Tensor]| call.pull(&all[y..], &all[..x], &all[x..y]);
    let arguments = [wide.clone(), like(&call.outputs)?, like(&call.cotangents)?].concat();
    let most = terms.backward.iter().fold(1.0, |most: f64, &t| most.max(t));
    let mut question = question(&pull, arguments, y, most);
    question.singular = !smooth;
    (question.order, question.sum) = (1, mixing(call.op) || most > 1.0);
    measured.push(("backward".into(), question.judge(&call.gradients)?));
    Ok(measured)
}

/// Values that the record says are not needed are not: NaN in their place changes nothing.
fn needs(call: &Call) -> Result<Verdict> {
    let needs = call.op.record().needs;
    let kept = |x: &Tensor, needed: bool| {
        if needed { Ok(x.clone()) } else { placeholder(x.shape(), x.dtype()) }
    };
    let inputs = call.inputs.iter().map(|x| kept(x, needs.inputs()));
    let inputs: Vec<Tensor> = inputs.collect::<Result<_>>()?;
    let count = results(call.op, &call.outputs).len();
    let outputs = call.outputs.iter().enumerate().map(|(k, y)| kept(y, needs.output(k, count)));
    let outputs: Vec<Tensor> = outputs.collect::<Result<_>>()?;
    let found = call.pull(&call.cotangents, &inputs, &outputs)?;
    Ok(bit_differences(&found, &call.gradients).map_or(Ok(()), Err))
}

/// Gradients have their inputs' shapes and dtypes. From finite inputs none is NaN where no value is,
/// and at a kink or a singular point all are finite.
fn fit(call: &Call, smooth: bool) -> Verdict {
    let wanted = call.inputs.iter().zip(&call.wanted).filter(|(_, w)| **w);
    let wanted: Vec<&Tensor> = wanted.map(|(x, _)| x).collect();
    if wanted.len() != call.gradients.len() {
        let (expected, got) = (wanted.len(), call.gradients.len());
        return Err(format!("{got} gradients for {expected} inputs"));
    }
    let all = |list: &[Tensor], such: fn(f64) -> bool| {
        list.iter().all(|x| x.to_f64_vec().into_iter().all(such))
    };
    let finite = all(&call.inputs, f64::is_finite);
    let defined = finite && all(results(call.op, &call.outputs), |y| !y.is_nan());
    for (x, g) in wanted.into_iter().zip(&call.gradients) {
        if x.shape() != g.shape() || x.dtype() != g.dtype() {
            let (dtype, shape) = (g.dtype(), g.shape());
            return Err(format!(
                "a gradient {dtype}{shape} for an input {}{}",
                x.dtype(),
                x.shape()
            ));
        }
        // The sum of several that are finite may not be, and that of infinities is none.
        let single = call.outputs.iter().all(|y| y.len() <= x.len());
        let wrong = |v: &f64| defined && single && (v.is_nan() || (!smooth && v.is_infinite()));
        let values = g.to_f64_vec();
        if let Some(at) = values.iter().position(wrong) {
            let (value, index) = (values[at], unravel(at, g.shape()));
            return Err(format!("the gradient is {value} at {index:?}, from finite inputs"));
        }
    }
    Ok(())
}
