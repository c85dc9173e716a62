//! Which parameters learn at which share of the learning rate and are held by which share of the weight
//! decay. This module knows names and numbers of axes; it must not know an optimiser.

use crate::autodiff::Path;
use crate::{Error, Result, Tensor, Tree};

/// Factors on the learning rate and on the weight decay, for parameters chosen by their names.
///
/// In a pattern, `*` stands for any letters (dots too) or none, `?` for any one letter, and anything
/// else for itself. Where several patterns match a parameter, their factors are multiplied. A pattern
/// that matches no parameter is an error.
///
/// ```
/// use extensor::optim::{AdamW, Groups, Optimizer};
/// use extensor::tensor;
/// let groups = Groups::new().weight_decay("1", 0.0).learning_rate("*", 0.5);
/// let optimizer = AdamW::new(0.1).weight_decay(1.0).groups(groups);
/// let model = [tensor([10.0]), tensor([10.0])];
/// let zero = [tensor([0.0]), tensor([0.0])];
/// let state = optimizer.init(&model)?;
/// let ([a, b], _) = optimizer.update(model, &zero, state)?;
/// assert_eq!(a.to_vec::<f64>()?, [9.5]); // 10 − 0.1 · 0.5 · 10
/// assert_eq!(b.to_vec::<f64>()?, [10.0]);
///
/// let misspelt = AdamW::new(0.1).groups(Groups::new().weight_decay("*.bais", 0.0));
/// assert!(misspelt.init(&[tensor([1.0])]).is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    which: Which,
    factors: Factors,
}

#[derive(Clone, Debug, PartialEq)]
enum Which {
    /// Those whose name matches a pattern.
    Named(String),
    /// Those of fewer than two axes.
    Vectors,
}

/// What a parameter's learning rate and weight decay are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factors {
    pub lr: f64,
    pub weight_decay: f64,
}

impl Factors {
    pub const NONE: Factors = Factors { lr: 1.0, weight_decay: 1.0 };
}

impl Groups {
    /// All parameters alike.
    pub fn new() -> Groups {
        Groups::default()
    }

    /// The usual preset: no weight decay for biases and for the parameters of normalisations, which are
    /// the parameters of fewer than two axes.
    ///
    /// ```
    /// use extensor::optim::{AdamW, Groups, Optimizer};
    /// use extensor::tensor;
    /// let optimizer = AdamW::new(0.1).weight_decay(1.0).groups(Groups::no_decay());
    /// let model = (tensor([[10.0]]), tensor([10.0])); // a weight and a bias
    /// let state = optimizer.init(&model)?;
    /// let zero = (tensor([[0.0]]), tensor([0.0]));
    /// let ((weight, bias), _) = optimizer.update(model, &zero, state)?;
    /// assert_eq!((weight.item::<f64>()?, bias.item::<f64>()?), (9.0, 10.0));
    /// # Ok::<(), extensor::Error>(())
    /// ```
    pub fn no_decay() -> Groups {
        Groups::new().with(Which::Vectors, Factors { weight_decay: 0.0, ..Factors::NONE })
    }

    /// With this factor on the weight decay of the parameters whose names match.
    pub fn weight_decay(self, pattern: impl Into<String>, factor: f64) -> Groups {
        let factors = Factors { weight_decay: factor, ..Factors::NONE };
        self.with(Which::Named(pattern.into()), factors)
    }

    /// With this factor on the learning rate of the parameters whose names match.
    pub fn learning_rate(self, pattern: impl Into<String>, factor: f64) -> Groups {
        self.with(Which::Named(pattern.into()), Factors { lr: factor, ..Factors::NONE })
    }

    fn with(mut self, which: Which, factors: Factors) -> Groups {
        self.rules.push(Rule { which, factors });
        self
    }

    /// The factors of every parameter of a model, in order; `None` if they are all 1.
    pub(super) fn factors<T: Tree>(
        &self,
        op: &'static str,
        model: &T,
    ) -> Result<Option<Vec<Factors>>> {
        if self.rules.is_empty() {
            return Ok(None);
        }
        for rule in &self.rules {
            let Factors { lr, weight_decay } = rule.factors;
            expect_factor(op, "a group's learning rate factor", lr)?;
            expect_factor(op, "a group's weight decay factor", weight_decay)?;
        }
        let mut used = vec![false; self.rules.len()];
        let mut found = Vec::new();
        model.visit(&Path::ROOT, &mut |path, x| {
            if !path.is_buffer() {
                found.push(self.factors_of(&path.to_string(), x, &mut used));
            }
            Ok(())
        })?;
        for (rule, used) in self.rules.iter().zip(used) {
            if let (Which::Named(pattern), false) = (&rule.which, used) {
                let expected = "one that matches the name of a parameter".into();
                let (parameter, got) = ("the pattern of a group", format!("{pattern:?}"));
                return Err(Error::Parameter { op, parameter, expected, got });
            }
        }
        Ok(Some(found))
    }

    fn factors_of(&self, name: &str, x: &Tensor, used: &mut [bool]) -> Factors {
        let mut product = Factors::NONE;
        for (rule, used) in self.rules.iter().zip(used) {
            let chosen = match &rule.which {
                Which::Named(pattern) => matches(pattern, name),
                Which::Vectors => x.ndim() < 2,
            };
            if chosen {
                *used = true;
                product.lr *= rule.factors.lr;
                product.weight_decay *= rule.factors.weight_decay;
            }
        }
        product
    }
}

fn expect_factor(op: &'static str, parameter: &'static str, factor: f64) -> Result<()> {
    if factor.is_finite() && factor >= 0.0 {
        return Ok(());
    }
    let (expected, got) = ("a finite number of at least 0".into(), format!("{factor:?}"));
    Err(Error::Parameter { op, parameter, expected, got })
}

/// Whether a name matches a pattern of letters, `?` and `*`.
///
/// ```
/// use extensor::optim::groups::matches;
/// assert!(matches("*.bias", "layers.0.bias"));
/// assert!(matches("layers.?.*", "layers.3.weight"));
/// assert!(!matches("*.bias", "bias"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star is, and from where on it was last tried to end.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((at, tried)) => {
                    *tried += 1;
                    (p, n) = (*at + 1, *tried);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
