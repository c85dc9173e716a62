//! Results too large for the caches are written past them, piece by piece: the same bits must arrive,
//! whatever the length and wherever the inputs begin.

use extensor::ops::*;
use extensor::*;

fn cut(x: &Tensor, start: usize, end: usize) -> Result<Tensor> {
    slice(x, 0, start as i64, end as i64, 1)
}

fn formulas(x: &Tensor, g: &Tensor) -> Result<Vec<Tensor>> {
    let products = [multiply(x, g)?, tanh(x)?, sin(x)?];
    Ok([
        products.to_vec(),
        vec![gelu(x, Approximate::None)?, gelu_backward(g, x, Approximate::None)?],
    ]
    .concat())
}

fn rows(x: &Tensor, g: &Tensor, gamma: &Tensor) -> Result<Vec<Tensor>> {
    let (y, log, shape) = (softmax(x, 1)?, log_softmax(x, 1)?, gamma.shape().to_vec());
    let normal = layer_norm(x, Some(gamma), Some(gamma), &shape, 1e-5)?;
    let (dx, _, _) = layer_norm_backward(g, x, Some(gamma), &shape, 1e-5)?;
    let gradients = [softmax_backward(g, &y, 1)?, log_softmax_backward(g, &log, 1)?, dx];
    Ok([vec![y, log, normal, mean(x, 1)?], gradients.to_vec()].concat())
}

/// That parts of what `f` makes of the whole are what it makes of the parts.
fn compare(
    f: impl Fn(&Tensor, &Tensor) -> Result<Vec<Tensor>>,
    [x, g]: [&Tensor; 2],
    part: usize,
) -> Result<()> {
    let (whole, len) = (f(x, g)?, x.shape()[0]);
    for start in [0, len / 2, len - part] {
        let of = |y: &Tensor| cut(y, start, start + part);
        for (k, (y, again)) in whole.iter().zip(f(&of(x)?, &of(g)?)?).enumerate() {
            assert_eq!(of(y)?.to_f64_vec(), again.to_f64_vec(), "result {k} from {start} of {len}");
        }
    }
    Ok(())
}

#[test]
fn formulas_over_large_tensors_have_the_bits_of_small_ones() -> Result<()> {
    for (len, dtype) in [(2_097_152, DType::F32), (2_500_001, DType::F32), (1_300_017, DType::F64)]
    {
        let [a, b] = Key::new(1).split();
        let (x, g) = (a.normal([len + 1], dtype)?, b.normal([len + 1], dtype)?);
        for start in [0, 1] {
            let (x, g) = (cut(&x, start, start + len)?, cut(&g, start, start + len)?);
            compare(formulas, [&x, &g], 1001)?;
        }
    }
    Ok(())
}

#[test]
fn rows_of_large_tensors_have_the_bits_of_small_ones() -> Result<()> {
    for (count, len) in [(2500, 1000), (17_000, 130), (60_000, 37), (520, 4099)] {
        let [a, b, c] = Key::new(2).split();
        let (x, g) = (a.normal([count, len], DType::F32)?, b.normal([count, len], DType::F32)?);
        let gamma = c.normal([len], DType::F32)?;
        compare(|x, g| rows(x, g, &gamma), [&x, &g], 3)?;
    }
    Ok(())
}

#[test]
fn a_sum_over_a_large_tensor_has_the_same_bits_however_it_is_read() -> Result<()> {
    // Read at several places from memory, with every other number from a packed piece of it.
    for (len, dtype) in [(6_500_000, DType::F32), (6_291_456, DType::F32), (3_300_001, DType::F64)]
    {
        let x = Key::new(3).normal([len], dtype)?;
        let apart = reshape(&stack(&[x.clone(), x.zeros_like()?], 1)?, [2 * len])?;
        let apart = slice(&apart, 0, 0, 2 * len as i64, 2)?;
        assert!(!apart.is_contiguous());
        for reduce in [sum, mean, max_reduce] {
            let want = reduce(&apart, over(..))?.to_f64_vec();
            for count in [1, 2, 3] {
                let got = threads::with(count, || reduce(&x, over(..)))?;
                assert_eq!(got.to_f64_vec(), want, "{len} numbers, {count} threads");
            }
        }
    }
    Ok(())
}

/// Whole numbers, whose sums and products are exact.
fn whole(key: u64, shape: &[usize]) -> Result<Tensor> {
    floor(&Key::new(key).uniform(shape, -4.0, 4.0, DType::F32)?)
}

#[test]
fn every_position_of_a_convolution_with_many_channels_gets_its_bias() -> Result<()> {
    let (weight, bias) = (whole(4, &[512, 2, 3, 3])?, whole(5, &[512])?);
    let (column, exact) = (reshape(&bias, [512, 1, 1])?, Tolerance::new(0.0, 0.0));
    // Many small images in one product, and one large one.
    for (images, side) in [(80, 7), (1, 70)] {
        let x = whole(6, &[images, 2, side, side])?;
        for stride in [1, 2] {
            let plain = conv2d(&x, &weight, None, ConvOptions::new().stride(stride).padding(1))?;
            let moved =
                conv2d(&x, &weight, Some(&bias), ConvOptions::new().stride(stride).padding(1))?;
            let want = add(&plain, &column)?;
            assert!(moved.allclose(&want, exact), "{images} × {side}², stride {stride}");
        }
        let x = whole(7, &[images, 1, side, side])?;
        let weight = reshape(&weight, [1, 1024, 3, 3])?;
        let bias = concatenate(&[bias.clone(), bias.clone()], 0)?;
        let plain = conv_transpose2d(
            &x,
            &weight,
            None,
            ConvOptions::new().stride(2).padding(1).output_padding(1),
        )?;
        let moved = conv_transpose2d(
            &x,
            &weight,
            Some(&bias),
            ConvOptions::new().stride(2).padding(1).output_padding(1),
        )?;
        let column = reshape(&bias, [1024, 1, 1])?;
        assert!(moved.allclose(&add(&plain, &column)?, exact), "{images} × {side}², transposed");
    }
    Ok(())
}
