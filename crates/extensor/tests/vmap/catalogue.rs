//! A loop over the catalogue: under `vmap` every operation gives what a loop over the examples gives, and
//! so do its gradients, the gradients of the batch, and its derivatives along tangents.

use crate::close::{close, nth};
use extensor::autodiff::{VmapOptions, jvp, vjp, vmap_with};
use extensor::ops::catalogue::CATALOGUE;
use extensor::ops::params::Params;
use extensor::ops::record::{Class, Family, Record};
use extensor::ops::samples::{Sample, Sampler};
use extensor::{DType, Error, Key, Result, Tensor, Tolerance, ops};

/// How many examples there are.
const SIZE: usize = 3;

/// A sample as a batch: other numbers, in the domain of the first example.
fn stacked(x: &Tensor) -> Result<Tensor> {
    let mut all = vec![x.clone()];
    for i in 1..SIZE {
        all.push(if x.dtype().is_float() {
            ops::multiply(x, &Tensor::scalar_of(0.9f64.powi(i as i32), x.dtype())?)?
        } else if i == 1 && x.ndim() > 0 {
            ops::flip(x, 0)?
        } else {
            x.clone()
        });
    }
    ops::stack(&all, 0)
}

/// Some numbers to multiply results by.
fn pattern(like: &Tensor) -> Result<Tensor> {
    let numbers = (0..like.len()).map(|i| 0.5 + ((i * 7 + 3) % 11) as f64 / 8.0);
    ops::cast(&Tensor::from_vec(numbers.collect(), like.shape().clone())?, like.dtype())
}

/// A call with some inputs mapped.
struct Case<'a> {
    record: &'a Record,
    params: &'a Params,
    inputs: Vec<Tensor>,
    mapped: Vec<bool>,
}

impl Case<'_> {
    /// Whether it draws random numbers.
    fn draws(&self) -> bool {
        let drops = |(name, _): (&str, _)| name == "dropout";
        self.record.family == Family::Dropout || self.params.iter().any(drops)
    }

    fn params(&self, example: Option<usize>) -> Params {
        match example {
            // Example i draws with key number i.
            Some(i) if self.draws() && self.mapped.contains(&true) => {
                let key = Params::new().with("key", Key::new(7).fold_in(i as u64));
                let others = self.params.iter().filter(|(name, _)| *name != "key");
                others.fold(key, |all, (name, value)| all.with(name, value.clone()))
            }
            _ => self.params.clone(),
        }
    }

    fn f(&self, x: &[Tensor], example: Option<usize>) -> Result<Vec<Tensor>> {
        let x: Vec<&Tensor> = x.iter().collect();
        Ok(self.record.call(&x, &self.params(example))?.to_vec())
    }

    /// The inputs to differentiate by.
    fn moving(&self) -> Vec<usize> {
        let found = 0..self.inputs.len();
        let moves =
            |&i: &usize| self.record.differentiable_input(i) && self.inputs[i].dtype().is_float();
        found.filter(moves).collect()
    }

    fn results(&self, x: &[Tensor], example: Option<usize>) -> Result<Vec<Tensor>> {
        let mut y = self.f(x, example)?;
        y.truncate(self.record.results(y.len()));
        Ok(y)
    }

    /// The gradients of the results, each times some numbers, for one example.
    fn grads(&self, x: &[Tensor], example: Option<usize>) -> Result<Vec<Tensor>> {
        let moves = self.moving();
        let at: Vec<Tensor> = moves.iter().map(|&i| x[i].clone()).collect();
        let (y, pull) = vjp(|at: &Vec<Tensor>| self.results(&with(x, &moves, at), example), &at)?;
        pull.call(&y.iter().map(pattern).collect::<Result<Vec<_>>>()?)
    }

    /// The derivatives along some numbers, for one example.
    fn along(&self, x: &[Tensor], example: Option<usize>) -> Result<Vec<Tensor>> {
        let moves = self.moving();
        let at: Vec<Tensor> = moves.iter().map(|&i| x[i].clone()).collect();
        let tangents = at.iter().map(pattern).collect::<Result<Vec<_>>>()?;
        let f = |at: &Vec<Tensor>| self.results(&with(x, &moves, at), example);
        Ok(jvp(f, &at, &tangents)?.1)
    }

    /// The gradients of the sum of the squares of the gradients.
    fn second(&self, x: &[Tensor], example: Option<usize>) -> Result<Vec<Tensor>> {
        let moves = self.moving();
        let at: Vec<Tensor> = moves.iter().map(|&i| x[i].clone()).collect();
        let f = |at: &Vec<Tensor>| self.grads(&with(x, &moves, at), example);
        let (dx, pull) = vjp(f, &at)?;
        pull.call(&dx.iter().map(pattern).collect::<Result<Vec<_>>>()?)
    }

    fn example(&self, i: usize) -> Vec<Tensor> {
        let both = self.inputs.iter().zip(&self.mapped);
        both.map(|(x, &mapped)| if mapped { nth(x, i) } else { x.clone() }).collect()
    }

    fn options(&self) -> VmapOptions {
        let axes: Vec<Option<i64>> = self.mapped.iter().map(|&m| m.then_some(0)).collect();
        VmapOptions::new().in_axes(axes)
    }

    /// Compares a function of an example with the loop.
    fn compare(
        &self,
        what: &str,
        f: impl Fn(&[Tensor], Option<usize>) -> Result<Vec<Tensor>>,
    ) -> std::result::Result<(), String> {
        let said = |error: Error| format!("{what}: {error}");
        let each: Result<Vec<Vec<Tensor>>> =
            (0..SIZE).map(|i| f(&self.example(i), Some(i))).collect();
        let got = vmap_with(|x: &Vec<Tensor>| f(x, None), &self.inputs, self.options());
        let (got, each) = match (got, each) {
            // What is an error for one example is one for all.
            (Err(_), Err(_)) => return Ok(()),
            (got, each) => (got.map_err(said)?, each.map_err(said)?),
        };
        for (k, got) in got.iter().enumerate() {
            let want: Vec<Tensor> = each.iter().map(|each| each[k].clone()).collect();
            let want = ops::stack(&want, 0).map_err(said)?;
            close(&format!("{what} {k}"), got, &want)?;
            // Elements know nothing of each other: the same kernel gives the same bits.
            let same = matches!(self.record.class, Class::Elementwise | Class::Constant);
            if same && what == "outputs" && got.difference(&want, Tolerance::EXACT).is_some() {
                return Err(format!("{what} {k}: other bits"));
            }
        }
        Ok(())
    }

    /// Compares the gradient of the whole batch with the examples' gradients.
    fn outside(&self) -> std::result::Result<(), String> {
        let said = |error: Error| format!("gradient of vmap: {error}");
        let moves = self.moving();
        let at: Vec<Tensor> = moves.iter().map(|&i| self.inputs[i].clone()).collect();
        let each: Result<Vec<Vec<Tensor>>> =
            (0..SIZE).map(|i| self.grads(&self.example(i), Some(i))).collect();
        let got = (|| {
            let f = |at: &Vec<Tensor>| {
                let x = with(&self.inputs, &moves, at);
                vmap_with(|x: &Vec<Tensor>| self.results(x, None), &x, self.options())
            };
            let (y, pull) = vjp(f, &at)?;
            let g = y.iter().map(|y| {
                let g = pattern(&nth(y, 0))?;
                ops::broadcast_to(&g, y.shape())
            });
            pull.call(&g.collect::<Result<Vec<_>>>()?)
        })();
        let (got, each) = match (got, each) {
            (Err(_), Err(_)) => return Ok(()),
            (got, each) => (got.map_err(said)?, each.map_err(said)?),
        };
        for (k, &i) in moves.iter().enumerate() {
            let want: Vec<Tensor> = each.iter().map(|each| each[k].clone()).collect();
            let mut want = ops::stack(&want, 0).map_err(said)?;
            if !self.mapped[i] {
                want = ops::sum(&want, 0).map_err(said)?;
            }
            close(&format!("gradient of vmap, input {i}"), &got[k], &want)?;
        }
        Ok(())
    }

    fn check(&self, second: bool) -> std::result::Result<(), String> {
        self.compare("outputs", |x, i| self.f(x, i))?;
        if self.record.is_differentiable() && !self.moving().is_empty() && floats_out(self) {
            self.compare("gradient", |x, i| self.grads(x, i))?;
            self.compare("derivative", |x, i| self.along(x, i))?;
            self.outside()?;
            if second && self.record.order > 1 {
                self.compare("second", |x, i| self.second(x, i))?;
            }
        }
        Ok(())
    }
}

fn floats_out(case: &Case<'_>) -> bool {
    let y = case.results(&case.example(0), Some(0));
    y.is_ok_and(|y| y.iter().all(|y| y.dtype().is_float()))
}

fn with(x: &[Tensor], moves: &[usize], at: &[Tensor]) -> Vec<Tensor> {
    let mut x = x.to_vec();
    moves.iter().zip(at).for_each(|(&i, value)| x[i] = value.clone());
    x
}

/// Which inputs are mapped: all, each one alone, and all but the first.
fn subsets(count: usize) -> Vec<Vec<bool>> {
    let mut all = vec![vec![true; count]];
    if count > 1 {
        all.extend((0..count).map(|only| (0..count).map(|i| i == only).collect::<Vec<bool>>()));
    }
    if count > 2 {
        all.push((0..count).map(|i| i > 0).collect());
    }
    all
}

fn samples(record: &Record) -> Vec<Sample> {
    let mut sampler = Sampler::new(Key::new(5));
    (record.samples)(&mut sampler);
    sampler.finish().into_iter().filter(|sample| !sample.large).collect()
}

fn check(record: &Record, dtype: DType, wrong: &mut Vec<String>) {
    for (number, sample) in samples(record).into_iter().enumerate() {
        let cast = |x: &Tensor| match x.dtype().is_float() {
            true => ops::cast(x, dtype),
            false => Ok(x.clone()),
        };
        let inputs: Vec<Tensor> = sample.inputs.iter().map(|x| cast(x).unwrap()).collect();
        for mapped in subsets(inputs.len()) {
            let pairs = inputs.iter().zip(&mapped);
            let inputs = pairs.map(|(x, &mapped)| if mapped { stacked(x) } else { Ok(x.clone()) });
            let inputs = inputs.collect::<Result<Vec<_>>>().unwrap();
            let case = Case { record, params: &sample.params, inputs, mapped: mapped.clone() };
            if let Err(text) = case.check(number < 4 && dtype == DType::F64) {
                let shapes: Vec<String> =
                    sample.inputs.iter().map(|x| x.shape().to_string()).collect();
                wrong.push(format!(
                    "{} sample {number} {} {:?} mapped {mapped:?}: {text}",
                    record.name,
                    shapes.join(" "),
                    sample.params
                ));
                break;
            }
        }
    }
}

fn all(dtype: DType) {
    let only = std::env::var("VMAP_ONLY").ok();
    let mut wrong = Vec::new();
    for record in CATALOGUE {
        if only.as_ref().is_none_or(|only| only == record.name) {
            check(record, dtype, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_operation_gives_what_a_loop_over_the_examples_gives() {
    all(DType::F64);
}

#[test]
fn every_operation_gives_what_a_loop_over_the_examples_gives_in_single_precision() {
    all(DType::F32);
}

#[test]
fn every_operation_gives_what_a_loop_over_the_examples_gives_in_sixteen_bits() {
    all(DType::BF16);
}
