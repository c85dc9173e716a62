//! Random numbers of examples: example `i` draws with `key.fold_in(i)`.

use crate::close::nth;
use extensor::autodiff::*;
use extensor::prelude::*;
use extensor::{compile, ops};

#[test]
fn a_key_among_the_arguments_is_split() -> Result<()> {
    let (key, x) = (Key::new(3), Key::new(1).normal([4, 5], DType::F32)?);
    let f = |(x, key): &(Tensor, Key)| {
        let [a, b] = key.split();
        let noise =
            a.normal([5], DType::F32)?.add(&b.fold_in(9).uniform([5], 0.0, 1.0, DType::F32)?)?;
        x.add(&noise)
    };
    let args = (x.clone(), key);
    let got = vmap(f, &args)?;
    for i in 0..4 {
        let want = f(&(nth(&x, i), key.fold_in(i as u64)))?;
        assert_eq!(nth(&got, i).to_vec::<f32>()?, want.to_vec::<f32>()?);
    }
    // In a compiled function the key is still an argument.
    let compiled = compile::compile(move |args: &(Tensor, Key)| vmap(f, args));
    for key in [Key::new(3), Key::new(4)] {
        let got = compiled.call(&(x.clone(), key))?;
        assert_eq!(got.to_vec::<f32>()?, vmap(f, &(x.clone(), key))?.to_vec::<f32>()?);
    }
    Ok(())
}

#[test]
fn dropout_draws_for_each_example() -> Result<()> {
    let (key, x) = (Key::new(3), Key::new(1).normal([4, 50], DType::F32)?);
    let got = vmap(|x: &Tensor| Ok(x.dropout(0.5, key)?.0), &x)?;
    for i in 0..4 {
        let want = nth(&x, i).dropout(0.5, key.fold_in(i as u64))?.0;
        assert_eq!(nth(&got, i).to_vec::<f32>()?, want.to_vec::<f32>()?);
    }
    // Two loops.
    let y = Key::new(1).normal([2, 3, 50], DType::F32)?;
    let got = vmap(|y: &Tensor| vmap(|y: &Tensor| Ok(y.dropout(0.5, key)?.0), y), &y)?;
    let want = nth(&nth(&y, 1), 2).dropout(0.5, key.fold_in(1).fold_in(2))?.0;
    assert_eq!(nth(&nth(&got, 1), 2).to_vec::<f32>()?, want.to_vec::<f32>()?);
    // With a key that is another one for each already, and with a tensor that is not.
    let args = (x.clone(), key);
    let got = vmap(|(x, key): &(Tensor, Key)| Ok(x.dropout(0.5, *key)?.0), &args)?;
    let want = nth(&x, 2).dropout(0.5, key.fold_in(2))?.0;
    assert_eq!(nth(&got, 2).to_vec::<f32>()?, want.to_vec::<f32>()?);
    let one = nth(&x, 0);
    let f = |key: &Key| grad(|x: &Tensor| ops::dropout(x, 0.5, *key)?.0.sum(..), &one);
    let got = vmap_with(f, &key, VmapOptions::new().size(3))?;
    for i in 0..3 {
        assert_eq!(nth(&got, i).to_vec::<f32>()?, f(&key.fold_in(i as u64))?.to_vec::<f32>()?);
    }
    Ok(())
}

#[test]
fn a_key_has_no_seed_and_outlives_nothing() -> Result<()> {
    let mut kept = None;
    let x = Tensor::zeros([2, 1], DType::F32)?;
    vmap(
        |(x, key): &(Tensor, Key)| {
            kept = Some(*key);
            Ok(x.clone())
        },
        &(x, Key::new(1)),
    )?;
    let Some(key) = kept else { panic!("f was not called") };
    assert!(key.normal([2], DType::F32).is_err());
    assert!(format!("{key:?}").contains("one for each example"));
    Ok(())
}
