//! Metrics against counting, and against what scikit-learn's documentation prints.

use extensor::metrics::{Average, Confusion, auroc, perplexity};
use extensor::{DType, Key, Result, tensor};

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn scores_are_those_of_scikit_learns_examples() -> Result<()> {
    let mut confusion = Confusion::new(3)?;
    confusion.add(&tensor([0i64, 2, 1, 0, 0, 1]), &tensor([0i64, 1, 2, 0, 1, 2]))?;
    let scores = confusion.scores(Average::Macro);
    near(scores.precision, 2.0 / 9.0);
    near(scores.recall, 1.0 / 3.0);
    near(scores.f1, 4.0 / 15.0);
    let weighted = confusion.scores(Average::Weighted);
    near(weighted.precision, 2.0 / 9.0);
    near(confusion.scores(Average::Micro).f1, 1.0 / 3.0);
    assert_eq!(confusion.precision(1), 0.0);
    assert_eq!(confusion.f_score(2, 1.0), 0.0);
    near(confusion.f_score(0, 2.0), 5.0 * (2.0 / 3.0) / (4.0 * (2.0 / 3.0) + 1.0));
    assert_eq!(confusion.to_string(), "     0  1  2\n  0  2  0  0\n  1  1  0  1\n  2  0  2  0");
    near(auroc(&tensor([0.1f32, 0.4, 0.35, 0.8]), &tensor([false, false, true, true]))?, 0.75);
    near(perplexity(3f64.ln()), 3.0);
    Ok(())
}

#[test]
fn the_area_is_the_part_of_pairs_in_order_with_ties_by_half() -> Result<()> {
    for seed in 0..20 {
        let [a, b] = Key::new(seed).split();
        // Few values, so that there are many ties.
        let scores = a.integers([40], 7)?.cast(DType::F64)?;
        let labels = b.integers([40], 2)?;
        let (s, l) = (scores.to_vec::<f64>()?, labels.cast(DType::I64)?.to_vec::<i64>()?);
        let (mut sum, mut pairs) = (0.0, 0.0);
        for (i, _) in l.iter().enumerate().filter(|(_, label)| **label == 1) {
            for (k, _) in l.iter().enumerate().filter(|(_, label)| **label == 0) {
                pairs += 1.0;
                sum += if s[i] > s[k] { 1.0 } else { 0.0 } + if s[i] == s[k] { 0.5 } else { 0.0 };
            }
        }
        near(auroc(&scores, &labels)?, sum / pairs);
    }
    // −0 and 0 are equal.
    near(auroc(&tensor([-0.0, 0.0]), &tensor([1i64, 0]))?, 0.5);
    Ok(())
}

#[test]
fn what_cannot_be_counted_is_an_error_and_adds_nothing() {
    let mut confusion = Confusion::new(2).unwrap();
    let errors = [
        (
            confusion.add(&tensor([0i64, 2]), &tensor([0i64, 1])),
            "predictions is 2, expected classes",
        ),
        (confusion.add(&tensor([0i64, 1]), &tensor([0i64, -1])), "targets is -1, expected classes"),
        (confusion.add(&tensor([0i64, 1]), &tensor([0i64])), "targets has shape [1], expected [2]"),
        (
            confusion.add(&tensor([0.5]), &tensor([0i64])),
            "predictions has dtype f64, expected a whole",
        ),
        (auroc(&tensor([f64::NAN, 1.0]), &tensor([0i64, 1])).map(drop), "scores is NaN"),
        (auroc(&tensor([0.0, 1.0]), &tensor([1i64, 1])).map(drop), "expected both 0 and 1"),
        (auroc(&tensor([0.0, 1.0]), &tensor([0i64, 3])).map(drop), "labels is 3, expected 0 or 1"),
        (auroc(&tensor([0i64, 1]), &tensor([0i64, 1])).map(drop), "scores has dtype i64"),
    ];
    for (result, text) in errors {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    for classes in [1 << 24, usize::MAX] {
        let error = Confusion::new(classes).unwrap_err().to_string();
        assert!(error.starts_with("confusion: "), "{error}");
    }
    assert_eq!(confusion.total(), 0);
    assert!(confusion.accuracy().is_nan());
    assert_eq!(confusion.recall(0), 0.0);
    assert!(Confusion::new(0).unwrap().scores(Average::Macro).f1.is_nan());
}
