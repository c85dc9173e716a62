//! Indexing and statistics that are made of operations: what they give by the definitions, their
//! derivatives of both orders and in both modes, and that they can be compiled.

use extensor::check::{Options, assert_grad};
use extensor::compile::compile;
use extensor::ops::*;
use extensor::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn twice(name: &str) -> Options {
    Options { order: 2, ..Options::named(name) }
}

fn draw(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(shape, DType::F64).unwrap()
}

#[track_caller]
fn same(got: &Tensor, want: &[f64]) {
    let got = got.to_f64_vec();
    let near = |a: &f64, b: &f64| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-14 * b.abs().max(1.0)
    };
    let all = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| near(a, b));
    assert!(all, "{got:?} is not {want:?}");
}

/// A function gives what it gives, its derivatives are right, and so it is when compiled.
#[track_caller]
fn holds(name: &str, f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) {
    assert_grad(&f, x, &twice(name));
    let eager = f(x).unwrap();
    let late = compile(|x: &Tensor| f(x)).call(x).unwrap();
    assert_eq!(eager.shape(), late.shape(), "{name}");
    same(&late, &eager.to_f64_vec());
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let small = f(&cast(x, dtype).unwrap()).unwrap();
        assert_eq!((small.dtype(), small.shape()), (dtype, eager.shape()), "{name}");
        for (a, b) in small.to_f64_vec().into_iter().zip(eager.to_f64_vec()) {
            let near = (a - b).abs() <= 16.0 * dtype.epsilon() * b.abs().max(1.0);
            assert!(a == b || near || a.is_nan() && b.is_nan(), "{name} in {dtype}: {a}, {b}");
        }
    }
}

/// The definition: the elements in order, and what lies at `q·(n − 1)`.
fn slow_quantile(values: &[f64], q: f64, how: QuantileMethod) -> f64 {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    let at = q * (v.len() - 1) as f64;
    let (a, b) = (v[at.floor() as usize], v[at.ceil() as usize]);
    match how {
        QuantileMethod::Linear => a + (b - a) * (at - at.floor()),
        QuantileMethod::Lower => a,
        QuantileMethod::Higher => b,
        QuantileMethod::Midpoint => (a + b) / 2.0,
        QuantileMethod::Nearest => v[at.round_ties_even() as usize],
    }
}

#[test]
fn quantiles_are_those_of_the_definition_over_any_axes() {
    let x = draw(1, &[3, 4, 5]);
    let (v, q) = (x.to_f64_vec(), [0.0, 0.25, 0.3, 0.5, 0.99, 1.0]);
    let hows = [
        QuantileMethod::Linear,
        QuantileMethod::Lower,
        QuantileMethod::Higher,
        QuantileMethod::Midpoint,
        QuantileMethod::Nearest,
    ];
    for how in hows {
        let want: Vec<f64> = q.iter().map(|&q| slow_quantile(&v, q, how)).collect();
        same(&quantile(&x, &tensor(q), .., how).unwrap(), &want);
        let mut want = Vec::new();
        for &q in &q {
            for j in 0..4 {
                let group = |i: usize| (0..5).map(move |k| (i * 4 + j) * 5 + k);
                let group: Vec<f64> = (0..3).flat_map(group).map(|k| v[k]).collect();
                want.push(slow_quantile(&group, q, how));
            }
        }
        let y = quantile(&x, &tensor(q), over([0, -1]).keepdims(true), how).unwrap();
        assert_eq!(y.shape(), [6, 1, 4, 1]);
        same(&y, &want);
        holds("quantile", |x| quantile(x, &tensor([0.1, 0.7]), 1, how), &x);
    }
    // Between two elements it can be differentiated by `q` too.
    let row = draw(2, &[7]);
    let by_q = |q: &Tensor| quantile(&row, q, .., QuantileMethod::Linear);
    assert_grad(by_q, &tensor([0.1, 0.4, 0.7]), &twice("q"));
    holds("median", |x| median(x, 1), &x);
    let many: Vec<f64> = (0..40).map(|i| f64::from(i) / 39.0).collect();
    let want: Vec<f64> = many.iter().map(|&q| slow_quantile(&v, q, hows[0])).collect();
    same(&quantile(&x, &Tensor::from_vec(many, [40]).unwrap(), .., hows[0]).unwrap(), &want);
}

#[test]
fn quantiles_of_what_is_special() {
    let how = QuantileMethod::Linear;
    let half = tensor(0.5);
    same(&median(&tensor([[3.0, NAN, 1.0], [3.0, 2.0, 1.0]]), 1).unwrap(), &[NAN, 2.0]);
    let x = tensor([[3.0, NAN, 1.0, NAN], [NAN, NAN, NAN, NAN], [4.0, 1.0, 2.0, 9.0]]);
    same(&nanmedian(&x, 1).unwrap(), &[2.0, NAN, 3.0]);
    same(&nanquantile(&x, &tensor([0.0, 1.0]), 1, how).unwrap(), &[1.0, NAN, 1.0, 3.0, NAN, 9.0]);
    same(&median(&tensor([INF, INF, 1.0, INF]), ..).unwrap(), &[INF]);
    same(&median(&tensor([-INF, -INF]), ..).unwrap(), &[-INF]);
    same(&quantile(&tensor([1.0, INF]), &tensor(0.0), .., how).unwrap(), &[1.0]);
    same(&median(&tensor([0.1, 0.1]), ..).unwrap(), &[0.1]);
    assert_eq!(median(&Tensor::zeros([0, 3], DType::F64).unwrap(), 1).unwrap().shape(), [0]);
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    let none = Tensor::zeros([0, 3], DType::F64).unwrap();
    assert!(said(median(&none, 0)).starts_with("median: "), "{}", said(median(&none, 0)));
    let x = tensor([1.0, 2.0]);
    let message = "quantile: q is a tensor with one outside, expected numbers from 0 to 1";
    for q in [-0.1, 1.1, NAN] {
        assert_eq!(said(quantile(&x, &tensor(q), .., how)), message);
    }
    let message = said(quantile(&tensor([1, 2]), &half, .., how));
    assert!(message.contains("x has dtype i32, expected a float type"), "{message}");
    // The gradient goes to the elements that were chosen.
    let dx = autodiff::grad(|x| median(x, ..), &tensor([4.0, 1.0, 3.0, 2.0])).unwrap();
    same(&dx, &[0.0, 0.0, 0.5, 0.5]);
    let dx = autodiff::grad(|x| nanmedian(x, ..), &tensor([4.0, NAN, 3.0])).unwrap();
    same(&dx, &[0.5, 0.0, 0.5]);
}

#[test]
fn what_is_nan_is_left_out_and_has_the_gradient_0() {
    let x = tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN], [-2.0, 5.0, 4.0]]);
    same(&nansum(&x, 1).unwrap(), &[4.0, 0.0, 7.0]);
    same(&nanprod(&x, 1).unwrap(), &[3.0, 1.0, -40.0]);
    same(&nanmean(&x, 1).unwrap(), &[2.0, NAN, 7.0 / 3.0]);
    same(&nanmax(&x, 1).unwrap(), &[3.0, NAN, 5.0]);
    same(&nanmin(&x, 1).unwrap(), &[1.0, NAN, -2.0]);
    same(&nanmax(&tensor([[-INF, NAN]]), 1).unwrap(), &[-INF]);
    assert_eq!(nansum(&tensor([1, 2]), ..).unwrap().item::<i32>().unwrap(), 3);
    assert_eq!(nanmax(&tensor([1, 2]), ..).unwrap().item::<i32>().unwrap(), 2);
    type Reduce = fn(&Tensor) -> Result<Tensor>;
    let all: [(&str, Reduce, [f64; 3]); 5] = [
        ("nansum", |x| nansum(x, ..), [1.0, 0.0, 1.0]),
        ("nanprod", |x| nanprod(x, ..), [3.0, 0.0, 1.0]),
        ("nanmean", |x| nanmean(x, ..), [0.5, 0.0, 0.5]),
        ("nanmax", |x| nanmax(x, ..), [0.0, 0.0, 1.0]),
        ("nanmin", |x| nanmin(x, ..), [1.0, 0.0, 0.0]),
    ];
    for (name, f, want) in all {
        same(&autodiff::grad(f, &tensor([1.0, NAN, 3.0])).unwrap(), &want);
        same(&autodiff::grad(f, &tensor([NAN, NAN])).unwrap(), &[0.0, 0.0]);
        holds(name, f, &draw(3, &[3, 4]));
    }
    let error = nanmax(&Tensor::zeros([0], DType::F32).unwrap(), ..).unwrap_err().to_string();
    assert!(error.contains("there is no such element in an empty axis"), "{error}");
}

#[test]
fn covariances_are_the_sums_of_the_definition() {
    let x = draw(4, &[3, 6]);
    let f = tensor([1, 2, 0, 3, 1, 1]);
    let a = tensor([0.5, 1.0, 2.0, 0.25, 1.5, 0.75]);
    let (v, fw, aw) = (x.to_f64_vec(), f.to_f64_vec(), a.to_f64_vec());
    for (fweights, aweights) in [(false, false), (true, false), (false, true), (true, true)] {
        for ddof in [0, 1, 2] {
            let w = |k: usize| {
                (if fweights { fw[k] } else { 1.0 }) * if aweights { aw[k] } else { 1.0 }
            };
            let total: f64 = (0..6).map(w).sum();
            let mean = |i: usize| (0..6).map(|k| w(k) * v[i * 6 + k]).sum::<f64>() / total;
            let squares: f64 = (0..6).map(|k| w(k) * if aweights { aw[k] } else { 1.0 }).sum();
            let freedom = total - f64::from(ddof) * squares / total;
            let mut want = Vec::new();
            for i in 0..3 {
                for j in 0..3 {
                    let d = |i: usize, k: usize| v[i * 6 + k] - mean(i);
                    let sum: f64 = (0..6).map(|k| w(k) * d(i, k) * d(j, k)).sum();
                    want.push(sum / freedom);
                }
            }
            let mut options = CovOptions::new().ddof(ddof as usize);
            options.fweights = fweights.then_some(&f);
            options.aweights = aweights.then_some(&a);
            same(&cov(&x, options).unwrap(), &want);
        }
    }
    holds("cov", |x| cov(x, CovOptions::new()), &x);
    assert_grad(|a: &Tensor| cov(&x, CovOptions::new().aweights(a)), &a, &twice("aweights"));
    holds("corrcoef", corrcoef, &draw(5, &[2, 5]));
    let row = draw(6, &[5]);
    same(&cov(&row, CovOptions::new()).unwrap(), &variance(&row, .., 1).unwrap().to_f64_vec());
    same(&corrcoef(&row).unwrap(), &[1.0]);
    let r = corrcoef(&tensor([[1.0, 2.0, 4.0], [0.1, 0.2, 0.4], [1.0, 1.0, 1.0]])).unwrap();
    same(&r, &[1.0, 1.0, NAN, 1.0, 1.0, NAN, NAN, NAN, NAN]);
    assert!(r.to_f64_vec()[..2].iter().all(|r| *r <= 1.0));
    same(&cov(&tensor([[2.0]]), CovOptions::new()).unwrap(), &[NAN]);
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    let message = said(cov(&tensor([[[1.0]]]), CovOptions::new()));
    assert!(message.starts_with("cov: x has shape [1, 1, 1], expected one axis"), "{message}");
    let message = said(cov(&row, CovOptions::new().fweights(&tensor([1, 2, -1, 1, 1]))));
    assert_eq!(message, "cov: fweights is a tensor with one, expected no negative number");
    let message = said(cov(&row, CovOptions::new().aweights(&tensor([1.0]))));
    assert_eq!(message, "cov: aweights has shape [1], expected [5]");
    let message = said(cov(&row, CovOptions::new().fweights(&row)));
    assert!(message.contains("fweights has dtype f64, expected a whole-number type"), "{message}");
}

#[test]
fn numbers_are_counted_and_their_weights_are_summed() {
    let x = tensor([[1, 0], [3, 1]]);
    let plain = BincountOptions::new();
    assert_eq!(bincount(&x, plain).unwrap().to_vec::<i64>().unwrap(), [1, 2, 0, 1]);
    let least = bincount(&x, plain.minlength(6)).unwrap();
    assert_eq!(least.to_vec::<i64>().unwrap(), [1, 2, 0, 1, 0, 0]);
    let none = Tensor::zeros([0], DType::I32).unwrap();
    assert_eq!(bincount(&none, plain.minlength(2)).unwrap().to_vec::<i64>().unwrap(), [0, 0]);
    let weights = draw(7, &[2, 2]);
    let f = |w: &Tensor| bincount(&x, BincountOptions::new().weights(w).length(5));
    assert_grad(f, &weights, &twice("weights"));
    let counted = compile(|x: &Tensor| bincount(x, BincountOptions::new().length(5)));
    assert_eq!(counted.call(&x).unwrap().to_vec::<i64>().unwrap(), [1, 2, 0, 1, 0]);
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    let message = said(bincount(&x, plain.length(3)));
    assert!(message.contains("index 3 is out of range for axis 0 of size 3"), "{message}");
    let message = said(bincount(&tensor([2, -1]), plain));
    assert!(message.contains("index -1 is out of range"), "{message}");
    assert!(said(bincount(&tensor([1.0]), plain)).contains("expected a whole-number type"));
    let message = said(compile(|x: &Tensor| bincount(x, BincountOptions::new())).call(&x));
    assert!(message.contains("bincount"), "{message}");
}

#[test]
fn histograms_count_what_is_in_each_interval_and_at_the_last_end() {
    let x = tensor([0.0, 0.5, 1.0, 1.0, 2.5, 3.0, 3.5, -1.0, NAN]);
    let three = HistogramOptions::new().bins(3);
    let (counts, edges) = histogram(&x, three.range([0.0, 3.0])).unwrap();
    assert_eq!(counts.to_vec::<i64>().unwrap(), [2, 2, 2]);
    same(&edges, &[0.0, 1.0, 2.0, 3.0]);
    let ends = tensor([0.0, 1.0, 3.0]);
    let (counts, _) = histogram(&x, HistogramOptions::new().edges(&ends)).unwrap();
    assert_eq!(counts.to_vec::<i64>().unwrap(), [2, 4]);
    let x = tensor([1.0, 2.0, 4.0, 2.0]);
    let (counts, edges) = histogram(&x, three).unwrap();
    assert_eq!(counts.to_vec::<i64>().unwrap(), [1, 2, 1]);
    same(&edges, &[1.0, 2.0, 3.0, 4.0]);
    let (counts, edges) = histogram(&tensor([7.0, 7.0]), three.bins(2)).unwrap();
    assert_eq!(counts.to_vec::<i64>().unwrap(), [0, 2]);
    same(&edges, &[6.5, 7.0, 7.5]);
    let none = Tensor::zeros([0], DType::F64).unwrap();
    let (counts, edges) = histogram(&none, three.bins(2)).unwrap();
    assert_eq!(counts.to_vec::<i64>().unwrap(), [0, 0]);
    same(&edges, &[0.0, 0.5, 1.0]);
    let weighted = |w: &Tensor| Ok(histogram(&x, HistogramOptions::new().bins(3).weights(w))?.0);
    assert_grad(weighted, &draw(8, &[4]), &twice("weights"));
    same(&weighted(&tensor([1.0, 2.0, 3.0, 0.5])).unwrap(), &[1.0, 2.5, 3.0]);
    let late = compile(|x: &Tensor| Ok(histogram(x, HistogramOptions::new().bins(3))?.0));
    assert_eq!(late.call(&x).unwrap().to_vec::<i64>().unwrap(), [1, 2, 1]);
    let said =
        |options: HistogramOptions<'_>, x: &Tensor| histogram(x, options).unwrap_err().to_string();
    let message = "histogram: x is a tensor with NaN or infinity, expected finite numbers";
    assert_eq!(said(three, &tensor([1.0, INF])), message);
    assert!(said(three.bins(0), &x).starts_with("histogram: bins is 0, expected at least 1"));
    let message = said(three.range([2.0, 1.0]), &x);
    assert!(message.contains("range is [2.0, 1.0], expected finite numbers"), "{message}");
}

#[test]
fn masks_choose_what_is_read_and_written() {
    let x = draw(9, &[2, 3]);
    let mask = tensor([[true, false, true], [false, false, true]]);
    let v = x.to_f64_vec();
    same(&masked_fill(&x, &mask, 7.0).unwrap(), &[7.0, v[1], 7.0, v[3], v[4], 7.0]);
    holds("masked_fill", |x| masked_fill(x, &mask, 0.5), &x);
    assert!(masked_fill(&tensor([1u8]), &tensor([true]), -1.0).is_err());
    same(&masked_select(&x, &mask).unwrap(), &[v[0], v[2], v[5]]);
    assert_grad(|x: &Tensor| masked_select(x, &mask), &x, &twice("masked_select"));
    let broad = masked_select(&x, &tensor([[true], [false]])).unwrap();
    same(&broad, &v[..3]);
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    let late = compile(|mask: &Tensor| masked_select(&x, mask)).call(&mask);
    assert!(said(late).contains("masked_select"));
    let source = draw(10, &[2, 2]);
    let s = source.to_f64_vec();
    let put = |x: &Tensor, source: &Tensor| masked_scatter(x, &mask, source);
    same(&put(&x, &source).unwrap(), &[s[0], v[1], s[1], v[3], v[4], s[2]]);
    holds("masked_scatter", |x| put(x, &cast(&source, x.dtype())?), &x);
    assert_grad(|s: &Tensor| put(&x, s), &source, &twice("source"));
    let none = Tensor::zeros([0], DType::F64).unwrap();
    same(&masked_scatter(&x, &tensor(false), &none).unwrap(), &v);
    let message = said(put(&x, &tensor([1.0, 2.0])));
    let want = "masked_scatter: mask is a mask with more than 2 trues, expected at most as many trues \
                as source has elements";
    assert_eq!(message, want);
    let message = said(masked_fill(&x, &x, 1.0));
    assert_eq!(message, "masked_fill: mask has dtype f64, expected bool");
    let message = said(masked_scatter(&tensor([1.0]), &mask, &source));
    assert!(message.contains("mask has shape [2, 3], expected one that broadcasts to [1]"));
}

#[test]
fn values_are_put_where_the_lists_of_several_axes_say() {
    let x = draw(11, &[3, 4, 2]);
    let at = [tensor([[2], [0]]), tensor([1, 3, 1])];
    let values = draw(12, &[3, 2]);
    for reduce in [ScatterReduce::Last, ScatterReduce::Sum, ScatterReduce::Prod] {
        let mut want = x.to_f64_vec();
        for i in [2, 0] {
            for (k, j) in [1, 3, 1].into_iter().enumerate() {
                for l in 0..2 {
                    let (to, new) = ((i * 4 + j) * 2 + l, values.to_f64_vec()[k * 2 + l]);
                    want[to] = match reduce {
                        ScatterReduce::Sum => want[to] + new,
                        ScatterReduce::Prod => want[to] * new,
                        _ => new,
                    };
                }
            }
        }
        same(&index_put(&x, &at, &values, reduce).unwrap(), &want);
        let f = |x: &Tensor| index_put(x, &at, &cast(&values, x.dtype())?, reduce);
        holds("index_put", f, &x);
        assert_grad(|v: &Tensor| index_put(&x, &at, v, reduce), &values, &twice("values"));
    }
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    let last = ScatterReduce::Last;
    // A position beyond an axis must not be one of the next row.
    let message = said(index_put(&x, &[tensor([0]), tensor([4])], &values, last));
    assert_eq!(message, "index_put: index 4 is out of range for axis 1 of size 4");
    let message = said(index_put(&x, &[tensor([-1])], &values, last));
    assert_eq!(message, "index_put: index -1 is out of range for axis 0 of size 3");
    let none: [Tensor; 0] = [];
    let message = said(index_put(&x, &none, &values, last));
    assert!(message.contains("indices is 0 tensors, expected one for each"), "{message}");
}
