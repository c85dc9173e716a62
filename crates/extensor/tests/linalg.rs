//! Linear algebra where it is difficult: equal eigenvalues, singular and nearly singular matrices, numbers
//! far from 1, sizes that one column or one block does not hold; and what is made of decompositions.

use extensor::autodiff::grad;
use extensor::ops::*;
use extensor::*;

fn random(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(shape, DType::F64).unwrap()
}

/// The largest size of `a − b`, and of `a`.
fn apart(a: &Tensor, b: &Tensor) -> f64 {
    let pairs = a.to_f64_vec().into_iter().zip(b.to_f64_vec());
    assert_eq!(a.shape(), b.shape());
    pairs.fold(0.0, |m: f64, (a, b)| if a == b { m } else { m.max((a - b).abs()) })
}

fn eye(n: usize) -> Tensor {
    Tensor::eye(n, n, DType::F64).unwrap()
}

fn product(parts: &[&Tensor]) -> Tensor {
    parts[1..].iter().fold(parts[0].clone(), |y, x| matmul(&y, x).unwrap())
}

#[test]
fn decompositions_of_every_size_give_back_the_matrix() -> Result<()> {
    for n in [1usize, 2, 3, 5, 8, 17, 33, 64, 100, 130, 200] {
        for m in [n, n + 7, (n / 2).max(1)] {
            for dtype in [DType::F32, DType::F64] {
                let a = cast(&random(n as u64, &[m, n]), dtype)?;
                let bound = 40.0 * dtype.epsilon() * (n.max(m) as f64);
                let (q, r) = qr(&a, Basis::Reduced)?;
                assert!(apart(&product(&[&q, &r]), &a) < bound, "qr {m} {n} {dtype}");
                let k = m.min(n);
                let one = cast(&eye(k), dtype)?;
                assert!(apart(&product(&[&matrix_transpose(&q)?, &q]), &one) < bound);
                let (u, s, vh) = svd(&a, Basis::Reduced)?;
                let scaled = multiply(&u, &expand_dims(&s, -2)?)?;
                assert!(apart(&product(&[&scaled, &vh]), &a) < bound, "svd {m} {n} {dtype}");
                assert!(apart(&svdvals(&a)?, &s) < bound, "svdvals {m} {n} {dtype}");
                let (full, _, full_vh) = svd(&a, Basis::Complete)?;
                let one = cast(&eye(m), dtype)?;
                assert!(apart(&product(&[&matrix_transpose(&full)?, &full]), &one) < bound);
                let one = cast(&eye(n), dtype)?;
                assert!(apart(&product(&[&full_vh, &matrix_transpose(&full_vh)?]), &one) < bound);
                let (q, r) = qr(&a, Basis::Complete)?;
                assert_eq!((q.shape()[1], r.shape()[0]), (m, m));
                assert!(apart(&product(&[&q, &r]), &a) < bound);
            }
        }
        let a = random(n as u64 + 1000, &[n, n]);
        let even = add(&product(&[&a, &matrix_transpose(&a)?]), &eye(n))?;
        let size = n as f64 * 1e-13;
        let l = cholesky(&even, Triangle::Lower)?;
        assert!(apart(&product(&[&l, &matrix_transpose(&l)?]), &even) < size, "cholesky {n}");
        let u = cholesky(&even, Triangle::Upper)?;
        assert_eq!(matrix_transpose(&l)?.to_f64_vec(), u.to_f64_vec());
        let (w, v) = eigh(&even)?;
        let scaled = multiply(&v, &expand_dims(&w, -2)?)?;
        assert!(apart(&product(&[&scaled, &matrix_transpose(&v)?]), &even) < 10.0 * size);
        assert!(apart(&eigvalsh(&even)?, &w) < 10.0 * size);
        assert!(apart(&product(&[&even, &inv(&even)?]), &eye(n)) < 100.0 * size);
        let b = random(3, &[n, 150]);
        assert!(apart(&product(&[&even, &solve(&even, &b)?]), &b) < 100.0 * size);
        assert!(apart(&product(&[&l, &solve_triangular(&l, &b, Triangle::Lower)?]), &b) < size);
    }
    Ok(())
}

#[test]
fn numbers_far_from_1_are_no_difficulty() -> Result<()> {
    let a = random(4, &[6, 6]);
    let even = add(&a, &matrix_transpose(&a)?)?;
    for factor in [1e-290, 1e-150, 1e150, 1e290] {
        let factor = tensor(factor);
        let close = |x: &Tensor, y: &Tensor| {
            let y = multiply(y, &factor).unwrap();
            let largest = y.to_f64_vec().iter().fold(0.0f64, |m, v| m.max(v.abs()));
            apart(x, &y) < 1e-13 * largest
        };
        let (far, even_far) = (multiply(&a, &factor)?, multiply(&even, &factor)?);
        assert!(close(&svdvals(&far)?, &svdvals(&a)?), "{factor:?}");
        assert!(close(&svd(&far, Basis::Reduced)?.1, &svdvals(&a)?));
        assert!(close(&eigvalsh(&even_far)?, &eigvalsh(&even)?));
        assert!(close(&eigh(&even_far)?.0, &eigvalsh(&even)?));
        assert!(close(&qr(&far, Basis::Reduced)?.1, &qr(&a, Basis::Reduced)?.1));
        assert!(apart(&product(&[&far, &inv(&far)?]), &eye(6)) < 1e-12);
    }
    Ok(())
}

#[test]
fn a_matrix_that_is_not_finite_gives_nan_and_leaves_the_others_of_its_batch_alone() -> Result<()> {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut values = eye(3).to_f64_vec().repeat(3);
        values[10] = bad;
        let a = Tensor::from_vec(values, [3, 3, 3])?;
        let b = Tensor::ones([3, 3, 1], DType::F64)?;
        let all = [
            cholesky(&a, Triangle::Lower)?,
            inv(&a)?,
            solve(&a, &b)?,
            expand_dims(&det(&a)?, -1)?,
            expand_dims(&slogdet(&a)?.1, -1)?,
            qr(&a, Basis::Reduced)?.0,
            eigh(&a)?.0,
            eigvalsh(&a)?,
            svd(&a, Basis::Reduced)?.2,
            svdvals(&a)?,
            expm(&a)?,
            pinv(&a, None)?,
        ];
        for (number, y) in all.iter().enumerate() {
            for (i, part) in split(y, 3, 0)?.iter().enumerate() {
                let nan = |v: &f64| v.is_nan();
                let values = part.to_f64_vec();
                assert!(
                    if i == 1 { values.iter().all(nan) } else { !values.iter().any(nan) },
                    "{number}: {values:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn what_does_not_depend_on_the_choice_of_vectors_is_differentiable_where_values_are_equal()
-> Result<()> {
    // The sum of all eigenvalues' cubes is the trace of the cube, whatever the vectors are.
    let cubes = |a: &Tensor| {
        let (w, v) = eigh(a)?;
        let scaled = multiply(&v, &expand_dims(&power(&w, &tensor(3.0))?, -2)?)?;
        sum(&multiply(&matmul(&scaled, &matrix_transpose(&v)?)?, &eye(3))?, ..)
    };
    for a in [eye(3), tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, -1.0]])] {
        let want = multiply(&tensor(3.0), &matmul(&a, &a)?)?;
        assert!(apart(&grad(cubes, &a)?, &want) < 1e-13);
    }
    // The sum of the singular values of a rotation, whose gradient is the rotation.
    let turn = tensor([[0.6, 0.8], [-0.8, 0.6]]);
    assert!(apart(&grad(|a: &Tensor| sum(&svdvals(a)?, ..), &turn)?, &turn) < 1e-15);
    assert!(apart(&grad(|a: &Tensor| a.matrix_norm(MatrixOrder::Nuclear), &turn)?, &turn) < 1e-15);
    // Gradients where there is none are finite.
    for a in [Tensor::zeros([3, 3], DType::F64)?, eye(3), Tensor::ones([3, 3], DType::F64)?] {
        let loss = |a: &Tensor| {
            let (u, s, vh) = svd(a, Basis::Reduced)?;
            let (w, v) = eigh(a)?;
            let all = [&u, &vh, &v].map(|x| sum(&multiply(x, x)?, ..));
            let [u, vh, v] = all;
            add(&add(&u?, &vh?)?, &add(&v?, &add(&sum(&s, ..)?, &sum(&w, ..)?)?)?)
        };
        assert!(grad(loss, &a)?.to_f64_vec().iter().all(|v| v.is_finite()));
    }
    Ok(())
}

#[test]
fn determinants_are_right_where_eliminating_overflows() -> Result<()> {
    for dtype in [DType::F32, DType::F64] {
        let largest = if dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        // Adding the first row to the second makes twice the largest number.
        let a = Tensor::from_vec(vec![1.0, 1.0, -1.0, 1.0], [2, 2])?;
        let a = multiply(&cast(&a, dtype)?, &Tensor::full([1], largest, dtype)?)?;
        assert_eq!(det(&a)?.to_f64_vec(), [f64::INFINITY]);
        let (sign, log) = slogdet(&a)?;
        assert_eq!(sign.to_f64_vec(), [1.0]);
        let close = 1e-6 * largest.ln();
        assert!((log.to_f64_vec()[0] - 2f64.ln() - 2.0 * largest.ln()).abs() < close);
        // Times a row that brings the product back: no row of zeros, none lost.
        let small =
            multiply(&Tensor::eye(3, 3, dtype)?, &Tensor::full([1], 0.25 / largest, dtype)?)?;
        let mixed = place(&small, &a)?;
        let one = det(&mixed)?.to_f64_vec()[0] / largest;
        assert!((one - 0.5).abs() < 1e-5, "{one}");
    }
    // What is far from 1 in a column, or in a row, is not lost.
    let tiny = tensor([[1.0, 0.0, 0.0], [1.0, 1e-310, 0.0], [1.0, 0.0, 1.0]]);
    assert_eq!(det(&tiny)?.item::<f64>()?, 1e-310);
    let columns = cast(&tensor([[1e30, 1e-20], [1e30, 3e-20]]), DType::F32)?;
    assert!((slogdet(&columns)?.1.to_f64_vec()[0] - 2e10f64.ln()).abs() < 1e-5);
    assert!((det(&columns)?.to_f64_vec()[0] / 2e10 - 1.0).abs() < 1e-6);
    assert!((det(&transpose(&columns, ..)?)?.to_f64_vec()[0] / 2e10 - 1.0).abs() < 1e-6);
    Ok(())
}

/// `[[corner, 0], [0, the last of x]]`.
fn place(x: &Tensor, corner: &Tensor) -> Result<Tensor> {
    let corner = pad(corner, [(0, 1), (0, 1)], 0.0)?;
    let last = Tensor::from_vec(
        vec![false, false, false, false, false, false, false, false, true],
        [3, 3],
    )?;
    where_(&last, x, &corner)
}

#[test]
fn the_determinant_is_differentiable_at_singular_matrices() -> Result<()> {
    let a = tensor([[1.0, 2.0], [2.0, 4.0]]);
    assert!(apart(&grad(det, &a)?, &tensor([[4.0, -2.0], [-2.0, 1.0]])) < 1e-14);
    let zero = Tensor::zeros([3, 3], DType::F64)?;
    assert_eq!(grad(det, &zero)?.to_f64_vec(), [0.0; 9]);
    let ranks = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    let want = tensor([[-3.0, 6.0, -3.0], [6.0, -12.0, 6.0], [-3.0, 6.0, -3.0]]);
    assert!(apart(&grad(det, &ranks)?, &want) < 1e-12);
    // Equal singular values are no difficulty in any order: det″ of the identity.
    let hessian = grad(|a: &Tensor| sum(&multiply(&grad(det, a)?, &eye(3))?, ..), &eye(3))?;
    assert!(apart(&hessian, &multiply(&eye(3), &tensor(2.0))?) < 1e-14);
    // Large matrices have no determinant that overflows on the way.
    let many = multiply(&Tensor::eye(700, 700, DType::F64)?, &tensor(4.0))?;
    assert_eq!(det(&many)?.item::<f64>()?, f64::INFINITY);
    assert!((slogdet(&many)?.1.item::<f64>()? - 700.0 * 4f64.ln()).abs() < 1e-9);
    let mut balanced = vec![4.0; 350];
    balanced.resize(700, 0.25);
    let diagonal =
        multiply(&Tensor::eye(700, 700, DType::F64)?, &Tensor::from_vec(balanced, [700])?)?;
    assert_eq!(det(&diagonal)?.item::<f64>()?, 1.0);
    Ok(())
}

#[test]
fn where_there_is_no_derivative_the_error_says_why() -> Result<()> {
    let tall = random(7, &[3, 2]);
    let loss = |a: &Tensor| sum(&svd(a, Basis::Complete)?.1, ..);
    let error = grad(loss, &tall).unwrap_err().to_string();
    assert!(
        error.starts_with("svd: cannot be differentiated with respect to a: with full_matrices")
    );
    let loss = |a: &Tensor| sum(&qr(a, Basis::Complete)?.1, ..);
    let error = grad(loss, &tall).unwrap_err().to_string();
    assert!(error.starts_with("qr: cannot be differentiated with respect to a: with mode"));
    let error = inv(&Tensor::zeros([2, 3, 4, 4], DType::F32)?).unwrap_err().to_string();
    assert_eq!(error, "inv: matrix [0, 0] of the batch is singular");
    Ok(())
}

#[test]
fn a_pseudoinverse_has_the_gradient_of_a_matrix_whose_rank_stays() -> Result<()> {
    // Of rank 1: a(t) = u·vᵀ, with both factors moved.
    let made = |factors: &Vec<Tensor>| {
        let a = outer(&factors[0], &factors[1])?;
        sum(&multiply(&pinv(&a, 1e-10)?, &tensor([[1.0, 2.0, -1.0], [0.5, 3.0, 2.0]]))?, ..)
    };
    let at = vec![tensor([1.0, -2.0, 0.5]), tensor([0.3, 2.0])];
    let grads = grad(made, &at)?;
    for k in 0..2 {
        for i in 0..at[k].len() {
            let moved = |h: f64| {
                let mut values = at[k].to_f64_vec();
                values[i] += h;
                let mut there = at.clone();
                there[k] = Tensor::from_vec(values, at[k].shape().clone())?;
                made(&there)?.item::<f64>()
            };
            let want = (moved(1e-5)? - moved(-1e-5)?) / 2e-5;
            assert!((grads[k].to_f64_vec()[i] - want).abs() < 1e-8);
        }
    }
    Ok(())
}

#[test]
fn norms_of_any_order_are_exact_at_zeros_and_overflow_nowhere() -> Result<()> {
    let x = tensor([3.0, -4.0, 0.0]);
    let norm = |p: f64| x.vector_norm(p, ..)?.item::<f64>();
    assert_eq!([norm(0.0)?, norm(1.0)?, norm(2.0)?, norm(f64::INFINITY)?], [2.0, 7.0, 5.0, 4.0]);
    assert_eq!([norm(f64::NEG_INFINITY)?, norm(-1.0)?], [0.0, 0.0]);
    assert!((norm(3.0)? - 91f64.cbrt()).abs() < 1e-14);
    assert!((norm(0.5)? - (3f64.sqrt() + 2.0).powi(2)).abs() < 1e-13);
    for size in [1e-300, 1e300] {
        let far = multiply(&x, &tensor(size))?;
        let y = far.vector_norm(3.0, ..)?.item::<f64>()?;
        assert!((y / size - 91f64.cbrt()).abs() < 1e-13, "{y}");
        let gradient = grad(|x: &Tensor| x.vector_norm(3.0, ..), &far)?;
        let want = grad(|x: &Tensor| x.vector_norm(3.0, ..), &x)?;
        assert!(apart(&gradient, &want) < 1e-13);
    }
    let zero = tensor([0.0, 0.0]);
    for p in [1.5, 2.0, 3.0] {
        assert_eq!(grad(|x: &Tensor| x.vector_norm(p, ..), &zero)?.to_f64_vec(), [0.0, 0.0], "{p}");
    }
    let rows = tensor([[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(rows.vector_norm(3.0, over(1).keepdims(true))?.shape(), [2, 1]);
    assert_eq!(rows.vector_norm(3.0, 0)?.shape(), [2]);
    let half = cast(&tensor([3.0, 4.0]), DType::F16)?;
    assert_eq!(half.vector_norm(3.0, ..)?.dtype(), DType::F16);
    assert_eq!(rows.matrix_norm(MatrixOrder::One)?.item::<f64>()?, 6.0);
    assert_eq!(rows.matrix_norm(MatrixOrder::Infinity)?.item::<f64>()?, 7.0);
    let kept = MatrixNormOptions::new().order(MatrixOrder::Two).keepdims(true);
    assert_eq!(rows.matrix_norm(kept)?.shape(), [1, 1]);
    Ok(())
}

#[test]
fn powers_ranks_and_least_squares_are_what_they_should_be() -> Result<()> {
    let a = random(8, &[2, 3, 3]);
    let cube = matmul(&matmul(&a, &a)?, &a)?;
    assert!(apart(&matrix_power(&a, 3)?, &cube) < 1e-13);
    assert!(apart(&matmul(&matrix_power(&a, -3)?, &cube)?, &matrix_power(&a, 0)?) < 1e-9);
    let ranks =
        tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]);
    assert_eq!(matrix_rank(&ranks, None)?.to_vec::<i64>()?, [1, 0, 2]);
    assert_eq!(cond(&ranks, MatrixOrder::Two)?.to_f64_vec()[2], 1.0);
    let (tall, b) = (random(9, &[8, 3]), random(10, &[8, 2]));
    let y = lstsq(&tall, &b, None)?;
    let left = subtract(&matmul(&tall, &y)?, &b)?;
    let zero = Tensor::zeros([3, 2], DType::F64)?;
    assert!(apart(&matmul(&matrix_transpose(&tall)?, &left)?, &zero) < 1e-13);
    assert_eq!(lstsq(&tall, &random(11, &[8]), None)?.shape(), [3]);
    assert!(lstsq(&tall, &random(11, &[7]), None).is_err());
    Ok(())
}

#[test]
fn an_exponential_of_the_largest_numbers_ends() -> Result<()> {
    for dtype in [DType::F32, DType::F64] {
        let largest = if dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        let x = Tensor::full([2, 2], -largest, dtype)?;
        let y = expm(&multiply(&x, &cast(&eye(2), dtype)?)?)?;
        assert_eq!(y.to_f64_vec(), [0.0; 4]);
        // The sums of its columns are infinite.
        assert_eq!(expm(&x)?.shape(), [2, 2]);
    }
    Ok(())
}

#[test]
fn a_tolerance_of_1_or_more_leaves_no_singular_value() -> Result<()> {
    let x = cast(&random(4, &[3, 2]), DType::F32)?;
    for rtol in [1.0, 1e300, f64::INFINITY] {
        assert_eq!(pinv(&x, rtol)?.to_f64_vec(), [0.0; 6]);
        assert_eq!(matrix_rank(&x, rtol)?.item::<i64>()?, 0);
    }
    for rtol in [-1.0, f64::NAN] {
        assert!(pinv(&x, rtol).unwrap_err().to_string().contains("expected at least 0"));
        assert!(matrix_rank(&x, rtol).unwrap_err().to_string().contains("expected at least 0"));
    }
    Ok(())
}
