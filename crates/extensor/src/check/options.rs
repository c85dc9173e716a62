//! How a gradient is to be checked.

use crate::{DType, Tensor, Tolerance};

/// Which differences a check takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every element of every input, one at a time.
    Full,
    /// Random directions through all inputs at once: `uᵀJv`.
    Fast,
    /// [`Full`](Mode::Full) for up to [`Options::FULL_LIMIT`] elements, [`Fast`](Mode::Fast) above.
    #[default]
    Auto,
}

/// How a gradient is to be checked. The defaults are those of the library's own suite.
///
/// ```
/// use extensor::check::{Mode, Options};
///
/// let options = Options {
///     name: "my layer".into(),
///     eps: Some(1e-6),
///     mode: Mode::Fast,
///     ..Options::default()
/// };
/// assert_eq!(options.rtol, None); // by dtype
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What the function is called in the report.
    pub name: String,
    /// What the inputs are called; those without a name are called by their number.
    pub input_names: Vec<String>,
    /// The inputs to differentiate by; `None`: all inputs of a float dtype.
    pub wrt: Option<Vec<usize>>,
    /// The step, in units of `max(1, |x|)`, or of the largest number of an input whose numbers are
    /// all tiny; `None`: by the inputs' dtype, or the cube root of its precision where differences
    /// are taken in it.
    pub eps: Option<f64>,
    /// The relative tolerance; `None`: by dtype.
    pub rtol: Option<f64>,
    /// The absolute tolerance of each term of a sum; `None`: by dtype.
    pub atol: Option<f64>,
    /// Which differences are taken.
    pub mode: Mode,
    /// How many random directions a fast check takes besides one for each input.
    pub directions: usize,
    /// Where the random cotangent and directions come from.
    pub seed: u64,
    /// The cotangent; `None`: random numbers of either sign between ½ and 1½ in size.
    pub cotangent: Option<Tensor>,
    /// Whether differences are taken in the inputs' own dtype rather than in `f64`.
    pub own_dtype: bool,
    /// Whether the slope of the Taylor remainder is checked too.
    pub taylor: bool,
    /// How many points that are not differentiable a report lists.
    pub shown: usize,
    /// Whether [`check_grad`](super::check_grad) compares forward mode with reverse mode.
    pub forward: bool,
    /// How often [`check_grad`](super::check_grad) differentiates: 1 or 2.
    pub order: u8,
    /// Whether the report keeps every comparison, and how the error moves with ε also where the
    /// check passes, and whether a fast check that fails goes on to find an element that is wrong.
    pub record: bool,
}

impl Options {
    /// The largest number of elements that [`Mode::Auto`] checks one at a time.
    pub const FULL_LIMIT: usize = 1024;

    /// The defaults, with a name.
    pub fn named(name: impl Into<String>) -> Options {
        Options { name: name.into(), ..Options::default() }
    }

    /// The name of input number `index`.
    pub(super) fn input_name(&self, index: usize) -> String {
        let named = self.input_names.get(index);
        named.map_or_else(|| format!("input {index}"), String::clone)
    }

    /// The tolerance for inputs of this dtype.
    pub(super) fn tolerance(&self, dtype: DType) -> Tolerance {
        let default = Tolerance::of(dtype);
        Tolerance::new(self.rtol.unwrap_or(default.relative), self.atol.unwrap_or(default.absolute))
    }

    /// The step for inputs of this dtype.
    pub(super) fn step(&self, dtype: DType) -> f64 {
        self.eps.unwrap_or(match dtype {
            _ if self.own_dtype => dtype.epsilon().cbrt(),
            DType::F16 | DType::BF16 => 1e-3,
            _ => 1e-5,
        })
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: "f".into(),
            input_names: Vec::new(),
            wrt: None,
            eps: None,
            rtol: None,
            atol: None,
            mode: Mode::Auto,
            directions: 3,
            seed: 0,
            cotangent: None,
            own_dtype: false,
            taylor: true,
            shown: 4,
            forward: true,
            order: 1,
            record: false,
        }
    }
}
