//! The derivatives of formulas, function by function: those too that no operation's formula has.

#[path = "../src/ops/calculus.rs"]
#[allow(dead_code, reason = "the library uses the rest")]
mod calculus;

use calculus::derivative;
use extensor_kernels::interpret;
use extensor_kernels::program::{Binary, Instruction, Program, Unary};
use extensor_kernels::view::View;

fn at(program: &Program, x: &[f64]) -> f64 {
    let views: Vec<View<'_, f64>> =
        x.iter().map(|x| View::new(std::slice::from_ref(x), 0, &[1], &[1])).collect();
    let mut out = [0.0];
    interpret::run(program, &views, &mut out);
    out[0]
}

/// Compares derivatives of a program at a point with central differences, up to some order.
fn compare(what: &str, program: &Program, x: &[f64], orders: usize) {
    const STEP: f64 = 1e-5;
    for by in 0..program.variables {
        let [mut above, mut below] = [x.to_vec(), x.to_vec()];
        above[by] += STEP;
        below[by] -= STEP;
        let want = (at(program, &above) - at(program, &below)) / (2.0 * STEP);
        let slope = derivative(program, by);
        let all: Vec<f64> = [1.0].iter().chain(x).copied().collect();
        let got = at(&slope, &all);
        let off = (got - want).abs() / want.abs().max(1.0);
        assert!(off < 1e-7, "{what} by {by} at {x:?}: {got}, by differences {want}");
        if orders > 1 {
            compare(&format!("{what} by {by},"), &slope, &all, orders - 1);
        }
    }
}

#[test]
fn derivatives_of_functions_of_one_number_are_those_of_differences() {
    use Unary::*;
    let anywhere = [
        Negate,
        Abs,
        Floor,
        Ceil,
        Round,
        Trunc,
        Exp,
        Expm1,
        Sin,
        Cos,
        Tan,
        Sinh,
        Cosh,
        Tanh,
        Atan,
        Asinh,
        Erf,
        Erfc,
        Sigmoid,
        Softplus,
        Gelu,
        GeluSlope,
        Bell,
        WideBell,
        Exp2,
        Cbrt,
        SinPi,
        CosPi,
        Ndtr,
        Lgamma,
        Digamma,
        LogNdtr,
        LogNdtrSlope,
        LogNdtrBend,
        I0,
        I0e,
        I0eSlope,
        I1,
        I1Slope,
        I1e,
        I1eSlope,
    ];
    let positive =
        [Sqrt, Log, Log1p, Log2, Log10, Asin, Acos, Atanh, Erfinv, ErfinvSlope, Ndtri, NdtriSlope];
    let anywhere = anywhere.map(|f| (f, &[-1.3, -0.4, 0.3, 0.7, 1.9][..]));
    let positive = positive.map(|f| (f, &[0.2, 0.7][..]));
    let above = [(Acosh, &[1.3, 4.0][..])];
    for (f, points) in anywhere.into_iter().chain(positive).chain(above) {
        let instructions = vec![Instruction::Variable(0), Instruction::Unary(f, 0)];
        let program = Program { variables: 1, instructions, result: 1 };
        points.iter().for_each(|&x| compare(&format!("{f:?}"), &program, &[x], 3));
    }
}

#[test]
fn derivatives_of_functions_of_two_numbers_are_those_of_differences() {
    use Binary::*;
    let all = [
        Add,
        Subtract,
        Multiply,
        Divide,
        Maximum,
        Minimum,
        FloorDivide,
        Modulo,
        Power,
        CopySign,
        Atan2,
        Hypot,
        Times,
        NanOr,
    ];
    for f in all {
        let instructions =
            vec![Instruction::Variable(0), Instruction::Variable(1), Instruction::Binary(f, 0, 1)];
        let program = Program { variables: 2, instructions, result: 2 };
        for [a, b] in [[0.7, 1.9], [2.3, 0.6], [1.2, -0.8], [-0.9, 1.7], [-2.3, -0.7]] {
            if f != Power || a > 0.0 {
                compare(&format!("{f:?}"), &program, &[a, b], 2);
            }
        }
    }
}

#[test]
fn equal_numbers_share_the_slope_of_the_larger_and_of_the_smaller() {
    for f in [Binary::Maximum, Binary::Minimum] {
        let instructions =
            vec![Instruction::Variable(0), Instruction::Variable(1), Instruction::Binary(f, 0, 1)];
        let program = Program { variables: 2, instructions, result: 2 };
        for by in [0, 1] {
            assert_eq!(at(&derivative(&program, by), &[1.0, 3.0, 3.0]), 0.5, "{f:?} by {by}");
        }
    }
}
