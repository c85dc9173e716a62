//! What a check found, in one screen.

use super::options::Mode;
use crate::{DType, Shape};
use std::fmt;

/// Where in the inputs something was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// An element of an input.
    Element {
        /// The input's name.
        input: String,
        /// The element's index along each axis.
        index: Vec<usize>,
    },
    /// A random direction through these inputs.
    Direction {
        /// Their names.
        inputs: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Element { input, index } => write!(f, "{input}{index:?}"),
            Place::Direction { inputs } => write!(f, "a random direction through {inputs}"),
        }
    }
}

/// A comparison of the two derivatives at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Where.
    pub place: Place,
    /// What the backward function says.
    pub analytic: f64,
    /// What differences say.
    pub numeric: f64,
    /// How far apart they may be there.
    pub tolerance: f64,
}

impl Comparison {
    /// How far apart the two are.
    pub fn error(&self) -> f64 {
        (self.analytic - self.numeric).abs()
    }

    /// The error in units of the tolerance: above 1 it is too large.
    pub fn ratio(&self) -> f64 {
        let error = self.error();
        if error == 0.0 { 0.0 } else { error / self.tolerance }
    }
}

/// The central difference for one step size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorAtStep {
    /// The step size.
    pub eps: f64,
    /// The difference quotient.
    pub numeric: f64,
    /// How far the analytic derivative is from it.
    pub error: f64,
}

/// A point at which the one-sided differences disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Kink {
    /// Where.
    pub place: Place,
    /// The difference from below.
    pub left: f64,
    /// The difference from above.
    pub right: f64,
    /// What the backward function says.
    pub analytic: f64,
}

/// Why a check did not pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// Called twice, a function gave different bits.
    Nondeterministic {
        /// Which of the two functions.
        function: &'static str,
        /// Where the results differ.
        difference: String,
    },
    /// The backward function returned too many or too few gradients.
    Count {
        /// How many inputs there are to differentiate by.
        expected: usize,
        /// How many gradients came back.
        got: usize,
    },
    /// A gradient's shape is not its input's.
    Shape {
        /// The input.
        input: String,
        /// Its shape.
        expected: Shape,
        /// The gradient's.
        got: Shape,
    },
    /// A gradient's dtype is not its input's.
    DType {
        /// The input.
        input: String,
        /// Its dtype.
        expected: DType,
        /// The gradient's.
        got: DType,
    },
    /// A gradient is NaN or infinite where the function is finite.
    NotFinite {
        /// Where.
        place: Place,
        /// The value.
        value: f64,
    },
    /// In reduced precision the function is not what it is in `f64`.
    Forward {
        /// Where they differ.
        difference: String,
    },
    /// The gradient is wrong.
    Wrong {
        /// At how many places it is known to be.
        places: usize,
        /// `analytic / numeric`, if it is the same at all of them.
        factor: Option<f64>,
    },
    /// The differences are not accurate enough to tell.
    Unresolved {
        /// How accurate they are at best.
        accuracy: f64,
    },
    /// Forward and reverse mode are not one map and its transpose.
    Adjoint {
        /// `<w, Jv>`.
        forward: f64,
        /// `<Jᵀw, v>`.
        reverse: f64,
    },
    /// The Taylor remainder does not fall as it should.
    Taylor {
        /// The slope found; 2 or more is right.
        slope: f64,
    },
    /// The function is not differentiable at any of the points.
    NothingChecked,
}

/// What a check found. It prints in one screen.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the function is called.
    pub name: String,
    /// The least precise dtype among the inputs.
    pub dtype: DType,
    /// Which differences were taken (not [`Mode::Auto`]).
    pub mode: Mode,
    /// The step.
    pub eps: f64,
    /// How many derivatives were compared: elements, or directions in a fast check.
    pub checked: usize,
    /// Out of how many elements the inputs have.
    pub elements: usize,
    /// Where the error is largest in units of its tolerance.
    pub worst: Option<Comparison>,
    /// How the error there moves with the step; for reports that do not pass, and on request
    /// ([`Options::record`](super::Options::record)) for all.
    pub steps: Vec<ErrorAtStep>,
    /// On request ([`Options::record`](super::Options::record)) every comparison made; where a fast
    /// check failed, those of the elements that it then looked at.
    pub comparisons: Vec<Comparison>,
    /// The points found not to be differentiable, as many as were to be shown.
    pub kinks: Vec<Kink>,
    /// How many there are in all.
    pub kink_count: usize,
    /// The slope of the Taylor remainder, if it was looked at; infinite where there is none.
    pub taylor: Option<f64>,
    /// Why the check did not pass.
    pub problem: Option<Problem>,
    /// What kind of mistake a wrong gradient looks like: a constant factor, a missing 1/N, a missing
    /// broadcast sum, one argument alone, …
    pub diagnosis: Option<String>,
}

impl Report {
    /// Whether the gradient is right.
    pub fn passed(&self) -> bool {
        self.problem.is_none()
    }

    /// The largest error in units of its tolerance.
    pub fn worst_ratio(&self) -> f64 {
        self.worst.as_ref().map_or(0.0, Comparison::ratio)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.mode {
            Mode::Fast => format!("{} directions through {} elements", self.checked, self.elements),
            _ => format!("{} of {} elements", self.checked, self.elements),
        };
        let setting = format!("{what}, {}, ε = {:e}", self.dtype, self.eps);
        match &self.problem {
            None => write!(f, "{}: the gradient is right ({setting})", self.name)?,
            Some(problem) => write!(f, "{}: {problem} ({setting})", self.name)?,
        }
        if let Some(worst) = &self.worst {
            let state = if self.passed() { "worst" } else { "at" };
            write!(f, "\n  {state} {}", worst.place)?;
            write!(f, "\n    analytic  {:>22.15e}", worst.analytic)?;
            write!(f, "\n    numeric   {:>22.15e}", worst.numeric)?;
            let (error, allowed) = (worst.error(), worst.tolerance);
            write!(f, "\n    error     {error:.3e}, allowed {allowed:.3e}")?;
            write!(f, " ({:.3} of it)", worst.ratio())?;
        }
        if !self.steps.is_empty() {
            f.write_str(
                "\n  how the error moves with ε\n    ε        numeric                  error",
            )?;
            for step in &self.steps {
                let ErrorAtStep { eps, numeric, error } = step;
                write!(f, "\n    {eps:<8.0e} {numeric:<24.15e} {error:.3e}")?;
            }
            if let Some(verdict) = self.verdict() {
                write!(f, "\n  {verdict}")?;
            }
        }
        if let Some(diagnosis) = &self.diagnosis {
            write!(f, "\n  it looks like this: {diagnosis}")?;
        }
        for kink in &self.kinks {
            let Kink { place, left, right, analytic } = kink;
            write!(f, "\n  not differentiable here: {place}: ")?;
            write!(f, "{left:.6} from below, {right:.6} from above, {analytic:.6} analytic")?;
        }
        if self.kink_count > self.kinks.len() {
            let more = self.kink_count - self.kinks.len();
            write!(f, "\n  and at {more} more points")?;
        }
        match self.taylor {
            Some(slope) if slope.is_infinite() => {
                f.write_str("\n  Taylor remainder: none but rounding (the function is affine)")
            }
            Some(slope) => write!(f, "\n  Taylor remainder: slope {slope:.2} (2 is right)"),
            None => Ok(()),
        }
    }
}

impl Report {
    /// What the way the error moves with ε says.
    fn verdict(&self) -> Option<String> {
        let worst = self.worst.as_ref()?;
        let finite = self.steps.iter().filter(|s| s.error.is_finite());
        let best = finite.min_by(|a, b| a.error.total_cmp(&b.error))?;
        Some(match self.problem {
            Some(Problem::Wrong { .. }) => format!(
                "a plateau at {:.1e}: the error does not go away with ε, so the formula is wrong",
                worst.error()
            ),
            Some(Problem::Unresolved { .. }) => format!(
                "a V: truncation above ε = {:.0e}, rounding below it; the differences are not accurate enough to tell",
                best.eps
            ),
            _ => return None,
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Nondeterministic { function, difference } => write!(
                f,
                "not deterministic: the {function} function called twice gives different results, {difference}"
            ),
            Problem::Count { expected, got } => {
                write!(f, "the backward function returned {got} gradients, expected {expected}")
            }
            Problem::Shape { input, expected, got } => {
                write!(f, "the gradient for {input} has shape {got}, expected {expected}")
            }
            Problem::DType { input, expected, got } => {
                write!(f, "the gradient for {input} has dtype {got}, expected {expected}")
            }
            Problem::NotFinite { place, value } => {
                write!(f, "the gradient is {value} at {place}, where the function is finite")
            }
            Problem::Forward { difference } => {
                write!(f, "the function is not what it is in f64 on the same inputs: {difference}")
            }
            Problem::Wrong { places, .. } => {
                let s = if *places == 1 { "" } else { "s" };
                write!(f, "WRONG GRADIENT at {places} place{s} or more")
            }
            Problem::Unresolved { accuracy } => write!(
                f,
                "the gradient is not confirmed: differences are only accurate to {accuracy:.1e}"
            ),
            Problem::Adjoint { forward, reverse } => write!(
                f,
                "FORWARD MODE DISAGREES: <w, Jv> = {forward:?} is not <Jᵀw, v> = {reverse:?}"
            ),
            Problem::Taylor { slope } => write!(
                f,
                "WRONG GRADIENT: the Taylor remainder falls with slope {slope:.2}, a right gradient gives 2"
            ),
            Problem::NothingChecked => f.write_str(
                "nothing was checked: the function is not differentiable at any of the points",
            ),
        }
    }
}
