//! Where the sums are tested.

use crate::DType;
use crate::Tensor;
use crate::ops::params::Params;
use crate::ops::samples::{Bad, Sampler};

/// Equations, each with the shapes of its operands.
const CASES: [(&str, &[&[usize]]); 25] = [
    ("ij,jk->ik", &[&[3, 4], &[4, 5]]),
    ("ij,kj->ki", &[&[3, 4], &[5, 4]]),
    ("ibj,kjb->bki", &[&[3, 2, 4], &[5, 4, 2]]),
    ("bhqd,bhkd->bhqk", &[&[2, 2, 3, 4], &[2, 2, 5, 4]]),
    ("bi,ijk,bj->bk", &[&[2, 3], &[3, 4, 5], &[2, 4]]),
    ("i,j->ji", &[&[3], &[4]]),
    ("ij->ji", &[&[3, 4]]),
    ("ii->i", &[&[4, 4]]),
    ("ijik->kj", &[&[2, 3, 2, 4]]),
    ("iii->i", &[&[3, 3, 3]]),
    ("iijj,jk->ik", &[&[3, 3, 2, 2], &[2, 4]]),
    ("ij,ij->", &[&[3, 4], &[3, 4]]),
    ("ij,ij->i", &[&[3, 4], &[3, 4]]),
    // Labels that only one operand has.
    ("ij,k->i", &[&[3, 4], &[5]]),
    // Several axes at once, in any order.
    ("aibj,jcib->ca", &[&[2, 3, 2, 4], &[4, 3, 3, 2]]),
    ("ab,bc,cd->ad", &[&[2, 3], &[3, 4], &[4, 2]]),
    ("a,b,c->cab", &[&[2], &[3], &[4]]),
    ("ij,ij,ij->j", &[&[2, 3], &[2, 3], &[2, 3]]),
    // More operands than all orders are compared of.
    ("a,ab,b,b,b,b,b,b,b->a", &[&[2], &[2, 2], &[2], &[2], &[2], &[2], &[2], &[2], &[2]]),
    ("...ij,...jk->...ik", &[&[2, 1, 3, 4], &[5, 4, 2]]),
    ("i...,i...", &[&[3, 2], &[3, 2]]),
    ("...,...->...", &[&[2, 3], &[3]]),
    // What is 1 in one operand broadcasts.
    ("ij,jk->ik", &[&[3, 1], &[4, 5]]),
    ("ij,ij->i", &[&[3, 4], &[1, 4]]),
    (" i j , j -> i ", &[&[3, 4], &[4]]),
];

/// No elements, and no axes.
const EDGES: [(&str, &[&[usize]]); 6] = [
    ("ij,jk->ik", &[&[0, 4], &[4, 3]]),
    ("ij,jk->ik", &[&[3, 0], &[0, 4]]),
    ("ii->i", &[&[0, 0]]),
    ("ij->j", &[&[0, 3]]),
    (",->", &[&[], &[]]),
    (",ij->ij", &[&[], &[2, 3]]),
];

pub(super) fn samples(s: &mut Sampler) {
    for (equation, shapes) in CASES.iter().chain(&EDGES) {
        let inputs: Vec<Tensor> = shapes.iter().map(|shape| s.normal(shape)).collect();
        s.add(inputs, Params::new().with("equation", *equation));
    }
    let x = s.normal(&[3, 3]);
    let params = Params::new().with("equation", "ij,jk->ik");
    s.add_noted([x.clone(), x], params.clone(), "one tensor twice");
    let deep: [(&str, [&[usize]; 2]); 2] =
        [("ij,jk->ik", [&[10, 1100], &[1100, 12]]), ("bij,kij->bk", [&[9, 25, 44], &[7, 25, 44]])];
    for (equation, [a, b]) in deep {
        let inputs = [s.normal(a), s.normal(b)];
        s.add_large(inputs, Params::new().with("equation", equation), "deep");
    }
}

pub(super) fn errors(bad: &mut Bad) {
    let x = bad.ones(&[2, 3], DType::F64);
    let equation = |text: &str| Params::new().with("equation", text);
    let calls: [(&str, &'static str); 8] = [
        ("ijk", "einsum: x0 has shape [2, 3], expected 3 dimensions, as \"ijk\" says"),
        ("...ijk", "expected at least 3 dimensions, as \"...ijk\" says"),
        ("ii", "einsum: x0 has shape [2, 3], expected size 2 along 'i', as x0 has in \"ii\""),
        ("ij->ii", "equation is \"ij->ii\", expected 'i' once in the result"),
        ("ij->ik", "expected 'k' of the result in an operand"),
        ("i1->i", "expected letters, commas, one \"->\" and one \"...\" for each tensor"),
        ("i...->i", "expected \"...\" in the result, since operands have it"),
        ("ij->i->j", "expected letters"),
    ];
    for (text, message) in calls {
        bad.add([x.clone()], equation(text), message);
    }
    let two = [x.clone(), x.clone()];
    let message = "einsum: x1 has shape [2, 3], expected size 3 along 'j', as x0 has in \"ij,jk\"";
    bad.add(two.clone(), equation("ij,jk"), message);
    bad.add(two, equation("ij"), "(2 tensors)");
    bad.add([x.clone()], equation("ij,jk"), "(1 tensor)");
    let other = bad.ones(&[3, 2], DType::F64);
    let message = "expected size 2 in place of \"...\", as x0 has";
    bad.add([x.clone(), other], equation("...,..."), message);
    bad.add([x.clone()], Params::new(), "equation is None, expected a word");
    let ints = bad.ones(&[3], DType::I64);
    bad.add([x.clone(), ints], equation("ij,j"), "dtypes f64 and i64 do not mix");
    let mask = bad.ones(&[3], DType::Bool);
    bad.add([x, mask], equation("ij,j"), "an operand has dtype bool, expected a number type");
    let long = bad.ones(&[1 << 16], DType::F64);
    let many = [long.clone(), long.clone(), long.clone(), long];
    bad.add(many, equation("a,b,c,d->abcd"), "more elements than memory can address");
}
