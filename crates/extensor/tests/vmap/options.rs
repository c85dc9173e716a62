//! Which axes are mapped, what goes wrong, and what is told.

use crate::close::close;
use extensor::autodiff::*;
use extensor::prelude::*;

#[test]
fn axes_are_those_of_items_or_of_leaves() -> Result<()> {
    let (a, b) = (tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tensor([10.0, 20.0, 30.0]));
    let args = ((a.clone(), a.clone()), b.clone());
    let f = |((x, y), b): &((Tensor, Tensor), Tensor)| x.add(y)?.multiply(b);
    let items = VmapOptions::new().in_axes([1, 0]);
    let error = vmap_with(f, &args, items).unwrap_err().to_string();
    assert!(error.contains("axes of one size: axis 1 of 0.0 has 2 examples"), "{error}");
    assert!(error.contains("axis 0 of 1, which has 3 examples"), "{error}");
    let leaves = VmapOptions::new().in_axes([Some(1), Some(-1), None]);
    let y = vmap_with(f, &args, leaves.clone())?;
    close("", &y, &(&(&a * 2.0).transpose(..)? * &b)).unwrap();
    let y = vmap_with(f, &args, leaves.out_axes(-1))?;
    close("", &y, &(&(&a * 2.0) * &b.reshape([3, 1])?)).unwrap();
    Ok(())
}

#[test]
fn what_does_not_differ_is_returned_for_each_example_or_once() -> Result<()> {
    let (x, w) = (tensor([1.0, 2.0, 3.0]), tensor([5.0, 6.0]));
    let f = |x: &Tensor| Ok((x.clone(), w.clone()));
    let (_, all) = vmap(f, &x)?;
    assert_eq!(all.shape(), [3, 2]);
    let (_, once) = vmap_with(f, &x, VmapOptions::new().out_axes([Some(0), None]))?;
    assert_eq!(once.shape(), [2]);
    let error = vmap_with(f, &x, VmapOptions::new().out_axes(None)).unwrap_err();
    assert!(error.to_string().contains("which differs between examples"), "{error}");
    Ok(())
}

#[test]
fn mistakes_are_told_with_what_was_expected() {
    let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
    let said = |f: &dyn Fn(&Tensor) -> Result<Tensor>, options: VmapOptions| {
        vmap_with(|x: &Tensor| f(x), &x, options).unwrap_err().to_string()
    };
    let same = |x: &Tensor| Ok(x.clone());
    let axes = |axis: Option<i64>| VmapOptions::new().in_axes(axis);
    for (options, part) in [
        (axes(Some(2)), "an axis of the argument, of shape [2, 2]"),
        (axes(None), "an axis for at least one tensor"),
        (VmapOptions::new().in_axes([0, 0, 0]), "3 axes"),
        (VmapOptions::new().out_axes(5), "a place among the axes"),
        (VmapOptions::new().size(7), "axes of size 7"),
    ] {
        let error = said(&same, options);
        assert!(error.contains(part), "{error}");
    }
    let empty = Tensor::zeros([0, 2], DType::F64).unwrap();
    let error = vmap(same, &empty).unwrap_err().to_string();
    assert!(error.contains("at least one example"), "{error}");
    let plain = VmapOptions::new;
    let error = said(&|x| x.to_vec::<f64>().map(|_| x.clone()), plain());
    assert!(error.contains("to_vec: under vmap the tensor stands for every example"), "{error}");
    let error = said(&|x| Ok(x.nonzero()?.remove(0)), plain());
    assert!(error.contains("nonzero: under vmap"), "{error}");
    let error = said(&|x| Ok(x.unique()?.values), plain());
    assert!(error.contains("unique: under vmap"), "{error}");
    // Under a gradient, and after it has been stopped.
    let error = said(&|x| grad(|x| Ok(x * stop_gradient(x).get::<f64>(&[0])?), x), plain());
    assert!(error.contains("get: under vmap"), "{error}");
    // The mistake is one of an example, not of the batch.
    let error = said(&|x| x.matmul(&tensor([1.0, 2.0, 3.0])), plain());
    assert!(error.contains("[3]") && !error.contains("[2, 2]"), "{error}");
}

#[test]
fn a_report_tells_loops_from_single_calls() -> Result<()> {
    let x = Key::new(1).normal([3, 4], DType::F64)?;
    let f = |x: &Tensor| {
        let table = x.reshape([2, 2])?;
        table.embedding(&tensor([1, 0, 1]))?.sum(..)
    };
    let (_, report) = vmap_explain(f, &x)?;
    assert_eq!(report.looped(), ["embedding"], "{report}");
    assert!(report.to_string().contains("reshape"), "{report}");
    Ok(())
}

#[test]
fn printing_shows_all_examples() -> Result<()> {
    let x = tensor([[1.0, 2.0], [3.0, 4.0]]);
    vmap(
        |x: &Tensor| {
            let text = x.to_string();
            assert!(text.contains('3') && text.contains("2 examples of [2]"), "{text}");
            Ok(x.clone())
        },
        &x,
    )?;
    Ok(())
}
