//! Proving gradients: by differences, by the Taylor remainder, by the adjoint identity.
//!
//! [`check_gradient`] checks an explicit pair of functions, [`check_grad`] whatever automatic
//! differentiation can differentiate, and [`assert_gradients_close`] is its
//! form for tests; [`assert_close`] compares two tensors; [`suite`] holds every operation of the catalogue to everything that must be true
//! of all of them. This module knows the [`Operation`](crate::ops::Operation) trait and the catalogue. It
//! must not know any particular operation, and no tolerance in it depends on which one is checked.
//!
//! # How the comparison is made
//!
//! The derivative of `<w, f(x)>`, with a random cotangent `w`, is compared with
//! `|analytic − numeric| <= n·atol + rtol·|numeric|`:
//!
//! | dtype | ε | rtol | atol |
//! | --- | --- | --- | --- |
//! | f64 | 1e-5 | 1e-7 | 1e-10 |
//! | f32 | 1e-5 | 1e-4 | 1e-7 |
//! | f16, bf16 | 1e-3 | 1e-2 | 1e-4 |
//!
//! Differences are taken in `f64` whatever the dtype, so that a kernel's own rounding is measured and
//! not the difference quotient's; in the inputs' own dtype on request. `n` is the length of the sum that the derivative is:
//! the number of outputs that a step in the element moves, counted while differences are taken; in a
//! direction, that of the elements moved, each as often as it moves faster than 1. A sum of `n` terms is uncertain by up to `n` roundings of their size; that, and nothing else, is
//! allowed for.
//!
//! A plain central difference with ε = 1e-5 carries an error of about 1e-11 from either side,
//! truncation (`ε²f‴/6`) and rounding, which is well within the tolerance where the function and
//! its third derivative are of ordinary size. Where it does not agree with the gradient, the
//! difference is taken again by Ridders' method: steps from 1000 ε down by halves, extrapolated to
//! 0, and the entry that settled best decides, chosen without regard to the gradient in question.
//! If that does not agree either, one-sided differences are compared: at a kink they disagree
//! however small the step, and the place is reported as not differentiable.

mod arrange;
mod bits;
mod close;
mod diagnosis;
mod differences;
pub mod exhaustive;
mod function;
mod gradient;
mod judge;
mod nested;
mod options;
pub mod points;
mod prepare;
mod report;
pub mod suite;
mod taylor;
mod units;

pub use arrange::{Arrangement, repeated};
pub use bits::bit_difference;
pub use close::{assert_close, assert_close_within};
pub use function::{assert_grad, check_grad};
pub use gradient::{
    NumericalGradient, assert_gradients_close, check_gradient, check_gradients, numerical_gradient,
};
pub use options::{Mode, Options};
pub use report::{Comparison, ErrorAtStep, Kink, Place, Problem, Report};
