//! The form of an operation that is a function of one number: `y` and `y′`, its parameters, and where
//! to test it.

pub(super) use super::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
pub(super) use super::operation::{apply_one, backward_of, placeholder};
pub(super) use super::params::{Params, Setting, expect_finite, expect_number, expect_order};
pub(super) use super::params::{expect_not_negative, expect_positive};
pub(super) use super::pointwise::{Takes, infer_unary, map_number, map_real};
pub(super) use super::record::{Family, Needs, Parameter, Record, signature};
pub(super) use super::samples::{Sampler, draw};
pub(super) use crate::{DType, Result, Tensor, autodiff};
pub(super) use extensor_kernels::map::{Formula, Formulas, NumberFormula, Numbers};
pub(super) use extensor_kernels::number::{Number, Real};
pub(super) use extensor_kernels::program::Program;
pub(super) use smallvec::smallvec;

/// Defines an operation from its formula and its gradient.
///
/// `real` formulas are for floats; `number` formulas take whole numbers too; `rounding` ones are
/// for floats and leave whole numbers as they are. The family is Elementwise unless another is
/// named. Samples are drawn `on` an interval, away from kinks; `also` adds others.
///
/// A parameter stands in parentheses after the operation's name, with its type, its default, what it
/// must be, and what it is for; the formulas and the kinks see it by its name:
///
/// ```text
/// real leaky_relu (alpha: f64 = 0.01, finite, "the slope below 0"), …
/// ```
///
/// One that is `finite` must be so in the precision that is computed in, and one that is `positive` or
/// `not_negative` must be that too; a `number` must not be NaN,
/// and a whole number for whole numbers; one that is `not_below` another must be a number that is
/// not. Samples are drawn `with` each of the settings listed, and with the defaults.
macro_rules! unary {
    ($(#$doc:tt)* $kind:ident $name:ident $(($($parameter:tt)+))*, $($rest:tt)+) => {
        unary!(@parameters {$(#$doc)* $kind $name} [] $(($($parameter)+))*, $($rest)+);
    };
    // Each parameter's type, and that of the argument for it.
    (@parameters $head:tt [$($done:tt)*] ($p:ident: f64 = $($more:tt)+) $($rest:tt)+) => {
        unary!(@parameters $head [$($done)* ($p {f64} {f64} = $($more)+)] $($rest)+);
    };
    (@parameters $head:tt [$($done:tt)*] ($p:ident: Option<f64> = $($more:tt)+) $($rest:tt)+) => {
        unary!(@parameters $head [$($done)* ($p {Option<f64>} {impl Into<Option<f64>>} = $($more)+)] $($rest)+);
    };
    (@parameters $head:tt $all:tt, $($rest:tt)+) => { unary!(@define $head $all $($rest)+); };
    (
        @define
        {$(#[$doc:meta])* $kind:ident $name:ident}
        [$((
            $p:ident {$($type:tt)+} {$($argument_type:tt)+}
            = $default:expr, $must:ident $($other:ident)?, $what:literal
        ))*]
            $backward:ident($from:ident), $Op:ident $(of $family:ident)?:
            y = |$x:ident| $f:expr,
            dy = |$g:ident, $v:ident $(, $limit:ident)?| $df:expr;
            $formula:literal, $derivative:literal,
            on $domain:literal [$low:expr, $high:expr] $(kinks $kinks:expr $(, unless $smooth:expr)?)?;
            $(with $({$($q:ident: $chosen:expr),+})+;)?
            $(also $more:expr;)?
            at $at:literal $(($($argument:expr),+))?: $value:literal $(, trig $trig:literal)?;
            $($field:ident: $content:expr,)*
    ) => {
        $(#[$doc])*
        ///
        #[doc = concat!("`", $formula, "`, for ", $domain, "; derivative `", $derivative, "`.")]
        $(
            #[doc = concat!("\n`", stringify!($p), "`: ", $what, "; in the catalogue ", stringify!($default), " by default.")]
        )*
        #[doc = unary!(@conventions $($field: $content,)*)]
        ///
        /// ```
        #[doc = concat!("let y = extensor::tensor(", stringify!($at), "f64).", stringify!($name), "(", stringify!($($($argument),+)?), ")?;")]
        #[doc = concat!("assert!((y.item::<f64>()? - ", stringify!($value), "f64).abs() < 1e-15);")]
        /// # Ok::<(), extensor::Error>(())
        /// ```
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor $(, $p: $($argument_type)+)*) -> Result<Tensor> {
            apply_one(&$Op { $($p: $p.into()),* }, &[x])
        }

        #[doc = concat!("The gradient of [`", stringify!($name), "`]: `", $derivative, "`, times `grad_output`, from the ", unary!(@words $from), ".")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(
            grad_output: &Tensor,
            $from: &Tensor
            $(, $p: $($argument_type)+)*
        ) -> Result<Tensor> {
            let op = $Op { $($p: $p.into()),* };
            unary!(@backward $from $from op grad_output)
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op {
            $($p: $($type)+,)*
        }

        unary!(@formula $kind $Op [$($p)*] $x [$f] $($trig)?);

        #[allow(unused_variables)]
        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: unary!(@family $($family)?),
                formula: $formula,
                derivative: $derivative,
                domain: $domain,
                params: &[$(Parameter {
                    name: stringify!($p),
                    what: $what,
                    default: Some(stringify!($default)),
                },)*],
                backward: signature!($backward(grad_output, $from; $($p),*)),
                needs: unary!(@needs $from),
                build: |params| Ok(Box::new($Op::read(params)?)),
                samples: |s| {
                    let settings = [$($($Op { $($q: $chosen),+ }),+)?];
                    let settings = settings.map(|op: $Op| (op.params(), op.kinks()));
                    draw(s, [$low, $high], &$Op { $($p: $default),* }.kinks(), &settings);
                    $(let more: fn(&mut Sampler) = $more; more(s);)?
                },
                kinks: |sample| $Op::read(&sample.params).is_ok_and(|op| sample.holds(0, &op.kinks())),
                errors: |bad| {
                    let wrong = bad.ones(&[2], DType::Bool);
                    bad.add([wrong], Params::new(), "x has dtype bool, expected");
                    $(
                        let (x, word) = (bad.ones(&[2], DType::F64), Params::new().with(stringify!($p), "x"));
                        bad.add([x], word, concat!(stringify!($p), " is \"x\", expected a number"));
                        unary!(@errors $must $($other)? $kind bad $p);
                    )*
                },
                $($field: $content,)*
                ..Record::BLANK
            };

            fn read(params: &Params) -> Result<$Op> {
                Ok($Op { $($p: Setting::read(params, stringify!($name), stringify!($p), $default)?),* })
            }
            fn params(self) -> Params {
                Params::new()$(.with(stringify!($p), self.$p))*
            }
            /// Where it cannot be differentiated, or not twice.
            fn kinks(self) -> Vec<f64> {
                let $Op { $($p),* } = self;
                #[allow(unused_mut, unused_assignments)]
                let mut all = Vec::new();
                $(
                    all = $kinks.to_vec();
                    $(if $smooth {
                        all.clear();
                    })?
                )?
                all
            }
        }

        const _: () = {
            #[derive(Clone)]
            struct Gradient {
                #[allow(dead_code)]
                limit: f64,
                op: $Op,
            }
            impl Formula<2> for Gradient {
                $(const TRIG: bool = $trig;)?
                #[inline(always)]
                fn f<R: Real>(&self, [$g, $v]: [R; 2]) -> R {
                    #[allow(unused_variables)]
                    let $Op { $($p),* } = self.op;
                    $(let $limit = self.limit;)?
                    $df
                }
            }
            impl Operation for $Op {
                fn record(&self) -> &'static Record {
                    $Op::RECORD
                }
                fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                    let specs = infer_unary(stringify!($name), inputs[0], unary!(@takes $kind))?;
                    let $Op { $($p),* } = *self;
                    $(unary!(@expect $must $($other)? inputs $name $p);)*
                    Ok(specs)
                }
                fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                    let (x, spec, op) = (inputs[0], specs.swap_remove(0), *self);
                    Ok(smallvec![unary!(@forward $kind stringify!($name), op, x, spec)?])
                }
                fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                    let (g, v) = (call.grad(), unary!(@pick $from call));
                    let rule = Gradient { limit: g.dtype().max_finite(), op: *self };
                    let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
                    unary!(@again $from call g spec rule);
                    call.one(|| map_real(stringify!($backward), &Formulas(rule), [g, v], spec))
                }
            }
        };
    };
    (@expect finite $inputs:ident $name:ident $p:ident) => {
        expect_finite(stringify!($name), stringify!($p), $p, $inputs[0].dtype())?
    };
    (@expect positive $inputs:ident $name:ident $p:ident) => {
        expect_positive(stringify!($name), stringify!($p), $p, $inputs[0].dtype())?
    };
    (@expect not_negative $inputs:ident $name:ident $p:ident) => {
        expect_not_negative(stringify!($name), stringify!($p), $p, $inputs[0].dtype())?
    };
    (@expect number $inputs:ident $name:ident $p:ident) => {
        expect_number(stringify!($name), stringify!($p), $p, $inputs[0].dtype())?
    };
    (@expect not_below $other:ident $inputs:ident $name:ident $p:ident) => {
        unary!(@expect number $inputs $name $p);
        expect_order(stringify!($name), [stringify!($other), stringify!($p)], [$other, $p])?
    };
    (@errors finite $kind:ident $bad:ident $p:ident) => {
        let [x, single] = [DType::F64, DType::F32].map(|dtype| $bad.ones(&[2], dtype));
        let [nan, large] = [f64::NAN, 1e300].map(|value| Params::new().with(stringify!($p), value));
        $bad.add([x], nan, concat!(stringify!($p), " is NaN, expected a finite number"));
        let message = concat!(stringify!($p), " is 1e300, expected a finite number that f32 can hold");
        $bad.add([single], large, message);
    };
    (@errors positive $kind:ident $bad:ident $p:ident) => {
        unary!(@errors finite $kind $bad $p);
        let [x, single] = [DType::F64, DType::F32].map(|dtype| $bad.ones(&[2], dtype));
        let [zero, small] = [0.0, 1e-300].map(|value| Params::new().with(stringify!($p), value));
        let message = concat!(stringify!($p), " is 0.0, expected a number above 0 that f64 can hold");
        $bad.add([x], zero, message);
        let message = concat!(stringify!($p), " is 1e-300, expected a number above 0 that f32 can hold");
        $bad.add([single], small, message);
    };
    (@errors not_negative $kind:ident $bad:ident $p:ident) => {
        unary!(@errors finite $kind $bad $p);
        let (x, below) = ($bad.ones(&[2], DType::F64), Params::new().with(stringify!($p), -0.5));
        $bad.add([x], below, concat!(stringify!($p), " is -0.5, expected a number from 0 up"));
    };
    (@errors number number $bad:ident $p:ident) => {
        unary!(@errors number real $bad $p);
        let (x, half) = ($bad.ones(&[2], DType::I32), Params::new().with(stringify!($p), 0.5));
        $bad.add([x], half, concat!(stringify!($p), " is 0.5, expected a whole number"));
    };
    (@errors number $kind:ident $bad:ident $p:ident) => {
        let (x, nan) = ($bad.ones(&[2], DType::F64), Params::new().with(stringify!($p), f64::NAN));
        $bad.add([x], nan, concat!(stringify!($p), " is NaN, expected a number"));
    };
    (@errors not_below $other:ident $kind:ident $bad:ident $p:ident) => {
        unary!(@errors number $kind $bad $p);
        let (x, order) = ($bad.ones(&[2], DType::F64), Params::new().with(stringify!($other), 2.0));
        let message = concat!(stringify!($other), " is 2.0, expected at most ", stringify!($p), " (1.0)");
        $bad.add([x], order.with(stringify!($p), 1.0), message);
    };
    (@conventions) => { "" };
    (@conventions conventions: $text:expr, $($rest:tt)*) => {
        concat!("\nConventions: ", $text, ".")
    };
    (@conventions $field:ident: $setting:expr, $($rest:tt)*) => { unary!(@conventions $($rest)*) };
    (@formula number $Op:ident [$($p:ident)*] $x:ident [$f:expr]) => {
        impl NumberFormula<1> for $Op {
            #[inline(always)]
            fn f<R: Number>(&self, [$x]: [R; 1]) -> R {
                let $Op { $($p),* } = *self;
                $f
            }
        }
    };
    (@formula $kind:ident $Op:ident [$($p:ident)*] $x:ident [$f:expr] $($trig:literal)?) => {
        impl Formula<1> for $Op {
            $(const TRIG: bool = $trig;)?
            #[inline(always)]
            fn f<R: Real>(&self, [$x]: [R; 1]) -> R {
                let $Op { $($p),* } = *self;
                $f
            }
        }
    };
    (@family) => { Family::Elementwise };
    (@family $family:ident) => { Family::$family };
    (@takes real) => { Takes::Floats };
    (@takes $kind:ident) => { Takes::Numbers };
    (@forward real $name:expr, $op:ident, $x:ident, $spec:ident) => { map_real($name, &Formulas($op), [$x], $spec) };
    (@forward number $name:expr, $op:ident, $x:ident, $spec:ident) => { map_number($name, &Numbers($op), [$x], $spec) };
    (@forward rounding $name:expr, $op:ident, $x:ident, $spec:ident) => {
        if $x.dtype().is_int() { Ok($x.clone()) } else { map_real($name, &Formulas($op), [$x], $spec) }
    };
    (@needs x) => { Needs::Inputs };
    (@needs output) => { Needs::Outputs };
    (@words x) => { "input" };
    (@words output) => { "output" };
    (@again x $call:ident $g:ident $spec:ident $rule:ident) => {};
    // To be differentiated again: as a function of the input, with nothing rounded in between.
    (@again output $call:ident $g:ident $spec:ident $rule:ident) => {
        if $call.inputs[0].is_traced() {
            let composed = Program::record(2, |v| $rule.f([v[0], $rule.op.f([v[1]])]));
            return $call.one(|| autodiff::formula(composed, &[$g, $call.inputs[0]], $spec));
        }
    };
    (@pick x $call:ident) => { $call.inputs[0] };
    (@pick output $call:ident) => { $call.output() };
    (@backward x $x:ident $op:ident $g:ident) => {{
        let output = placeholder($x.shape(), $x.dtype())?;
        let [grad] = backward_of(&$op, $g, &[$x], &output)?;
        Ok(grad)
    }};
    (@backward output $output:ident $op:ident $g:ident) => {{
        let x = placeholder($output.shape(), $output.dtype())?;
        let [grad] = backward_of(&$op, $g, &[&x], $output)?;
        Ok(grad)
    }};
}
pub(super) use unary;
