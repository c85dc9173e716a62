//! The modified Bessel functions of the first kind of order 0 and 1, as they are and scaled.

use crate::ops::unary::*;

unary! {
    /// The modified Bessel function of order 0, `y = I₀(x)`; see [`i0e`] where that is too large.
    real i0, i0_backward(x), I0:
            y = |x| x.i0(),
            dy = |g, x| g.times(x.i1());
            "y = I₀(x)", "y′ = I₁(x)",
            on "all numbers" [-3.0, 3.0];
            also |s| s.add_noted([far()], Params::new(), "further out");
            at 0.5: 1.0634833707413236;
}

unary! {
    /// The modified Bessel function of order 1, `y = I₁(x)`; see [`i1e`] where that is too large.
    real i1, i1_backward(x), I1:
            y = |x| x.i1(),
            dy = |g, x| g.times(x.i1_slope());
            "y = I₁(x)", "y′ = I₀(x) − y/x",
            on "all numbers" [-3.0, 3.0];
            also |s| s.add_noted([far()], Params::new(), "further out");
            at 0.5: 0.2578943053908963;
            conventions: "the derivative at 0 is ½, as that of a smooth function",
}

unary! {
    /// The modified Bessel function of order 0, scaled, `y = e^(−|x|) I₀(x)`: nothing in it overflows, and its
    /// derivatives keep all their digits far away.
    real i0e, i0e_backward(x), I0e:
            y = |x| x.i0e(),
            dy = |g, x| g * x.i0e_slope();
            "y = e^(−|x|) I₀(x)", "y′ = e^(−|x|) I₁(x) − sign(x) y",
            on "all numbers" [-3.0, 3.0] kinks [0.0];
            also |s| s.add_noted([far()], Params::new(), "further out");
            at 0.5: 0.6450352704491501;
            conventions: "y′(0) = 0",
}

unary! {
    /// The modified Bessel function of order 1, scaled, `y = e^(−|x|) I₁(x)`: nothing in it overflows, and its
    /// derivatives keep all their digits far away.
    real i1e, i1e_backward(x), I1e:
            y = |x| x.i1e(),
            dy = |g, x| g * x.i1e_slope();
            "y = e^(−|x|) I₁(x)", "y′ = e^(−|x|) I₀(x) − y (1/x + sign(x))",
            on "all numbers" [-3.0, 3.0] kinks [0.0];
            also |s| s.add_noted([far()], Params::new(), "further out");
            at 0.5: 0.1564208031848717;
            conventions: "the derivative at 0 is ½, and has a kink there",
}

/// Points on both sides of where another form of the formulas begins.
fn far() -> Tensor {
    crate::tensor([-9.5, -8.2, -7.7, 5.0, 7.9, 8.4])
}
