//! The form of an operation that is a function of one number: `y` and `y′`, and where to test it.

pub(super) use super::operation::{Backward, Grads, Operation, Outputs, Spec, Specs};
pub(super) use super::operation::{apply_one, backward_of, husk};
pub(super) use super::params::Params;
pub(super) use super::pointwise::{Takes, infer_unary, map_number, map_real};
pub(super) use super::record::{Family, Needs, Record};
pub(super) use super::samples::{LARGE, SHAPES, Sampler};
pub(super) use crate::{DType, Result, Tensor, autodiff};
pub(super) use extensor_kernels::map::{Formula, Formulas, NumberFormula, Numbers};
pub(super) use extensor_kernels::number::{Number, Real};
pub(super) use extensor_kernels::program::Program;
pub(super) use smallvec::smallvec;

/// Defines an operation from its formula and its gradient.
///
/// `real` formulas are for floats; `number` formulas take whole numbers too; `rounding` ones are
/// for floats and leave whole numbers as they are. Samples are drawn `on` an interval, away from
/// kinks; `also` adds others. The family is Elementwise unless another is named.
macro_rules! unary {
    (
        $(#[$doc:meta])*
        $kind:ident $name:ident, $backward:ident($from:ident), $Op:ident $(of $family:ident)?:
            y = |$x:ident| $f:expr,
            dy = |$g:ident, $v:ident $(, $limit:ident)?| $df:expr;
            $formula:literal, $derivative:literal,
            on $domain:literal [$low:expr, $high:expr] $(kinks $kinks:expr)?;
            $(also $more:expr;)?
            at $at:literal: $value:literal $(, trig $trig:literal)?;
            $($field:ident: $setting:expr,)*
    ) => {
        $(#[$doc])*
        ///
        #[doc = concat!("`", $formula, "`, for ", $domain, "; derivative `", $derivative, "`.")]
        #[doc = unary!(@conventions $($field: $setting,)*)]
        ///
        /// ```
        #[doc = concat!("let y = extensor::tensor(", stringify!($at), "f64).", stringify!($name), "()?;")]
        #[doc = concat!("assert!((y.item::<f64>()? - ", stringify!($value), "f64).abs() < 1e-15);")]
        /// # Ok::<(), extensor::Error>(())
        /// ```
        #[extensor_derive::method]
        #[track_caller]
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            apply_one(&$Op, &[x])
        }

        #[doc = concat!("The gradient of [`", stringify!($name), "`]: `", $derivative, "`, times `grad_output`, from the ", unary!(@words $from), ".")]
        #[track_caller]
        #[extensor_derive::noted]
        pub fn $backward(grad_output: &Tensor, $from: &Tensor) -> Result<Tensor> {
            unary!(@backward $from $from $Op grad_output)
        }

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $Op;

        unary!(@formula $kind $Op $x [$f] $($trig)?);

        impl $Op {
            pub(crate) const RECORD: &'static Record = &Record {
                name: stringify!($name),
                family: unary!(@family $($family)?),
                formula: $formula,
                derivative: $derivative,
                domain: $domain,
                backward: concat!(stringify!($backward), "(grad_output, ", stringify!($from), ")"),
                needs: unary!(@needs $from),
                build: |_| Ok(Box::new($Op)),
                samples: |s| {
                    #[allow(unused_mut, unused_assignments)]
                    let mut kinks: &[f64] = &[];
                    $(kinks = &$kinks;)?
                    for shape in SHAPES {
                        let x = s.away($low, $high, kinks, shape);
                        s.add([x], Params::new());
                    }
                    let x = s.away($low, $high, kinks, &[LARGE]);
                    s.add_large([x], Params::new(), "many numbers");
                    $(let more: fn(&mut Sampler) = $more; more(s);)?
                },
                $(kinks: |sample| sample.holds(0, &$kinks),)?
                errors: |bad| {
                    let wrong = bad.ones(&[2], DType::Bool);
                    bad.add([wrong], Params::new(), "x has dtype bool, expected");
                },
                $($field: $setting,)*
                ..Record::BLANK
            };
        }

        const _: () = {
            struct Gradient {
                #[allow(dead_code)]
                limit: f64,
            }
            impl Formula<2> for Gradient {
                $(const TRIG: bool = $trig;)?
                #[inline(always)]
                fn f<R: Real>(&self, [$g, $v]: [R; 2]) -> R {
                    $(let $limit = self.limit;)?
                    $df
                }
            }
            impl Operation for $Op {
                fn record(&self) -> &'static Record {
                    $Op::RECORD
                }
                fn infer(&self, inputs: &[&Tensor]) -> Result<Specs> {
                    infer_unary(stringify!($name), inputs[0], unary!(@takes $kind))
                }
                fn forward(&self, inputs: &[&Tensor], mut specs: Specs) -> Result<Outputs> {
                    let (x, spec) = (inputs[0], specs.swap_remove(0));
                    Ok(smallvec![unary!(@forward $kind stringify!($name), $Op, x, spec)?])
                }
                fn backward(&self, call: &Backward<'_>) -> Result<Grads> {
                    let (g, v) = (call.grad(), unary!(@pick $from call));
                    let limit = g.dtype().max_finite();
                    let spec = Spec { shape: g.shape().clone(), dtype: g.dtype() };
                    unary!(@again $from $Op call g spec limit);
                    call.one(|| map_real(stringify!($backward), &Formulas(Gradient { limit }), [g, v], spec))
                }
            }
        };
    };
    (@conventions) => { "" };
    (@conventions conventions: $text:expr, $($rest:tt)*) => {
        concat!("\nConventions: ", $text, ".")
    };
    (@conventions $field:ident: $setting:expr, $($rest:tt)*) => { unary!(@conventions $($rest)*) };
    (@formula number $Op:ident $x:ident [$f:expr]) => {
        impl NumberFormula<1> for $Op {
            #[inline(always)]
            fn f<R: Number>(&self, [$x]: [R; 1]) -> R {
                $f
            }
        }
    };
    (@formula $kind:ident $Op:ident $x:ident [$f:expr] $($trig:literal)?) => {
        impl Formula<1> for $Op {
            $(const TRIG: bool = $trig;)?
            #[inline(always)]
            fn f<R: Real>(&self, [$x]: [R; 1]) -> R {
                $f
            }
        }
    };
    (@family) => { Family::Elementwise };
    (@family $family:ident) => { Family::$family };
    (@takes real) => { Takes::Floats };
    (@takes $kind:ident) => { Takes::Numbers };
    (@forward real $op:expr, $Op:ident, $x:ident, $spec:ident) => { map_real($op, &Formulas($Op), [$x], $spec) };
    (@forward number $op:expr, $Op:ident, $x:ident, $spec:ident) => { map_number($op, &Numbers($Op), [$x], $spec) };
    (@forward rounding $op:expr, $Op:ident, $x:ident, $spec:ident) => {
        if $x.dtype().is_int() { Ok($x.clone()) } else { map_real($op, &Formulas($Op), [$x], $spec) }
    };
    (@needs x) => { Needs::Inputs };
    (@needs output) => { Needs::Outputs };
    (@words x) => { "input" };
    (@words output) => { "output" };
    (@again x $Op:ident $call:ident $g:ident $spec:ident $limit:ident) => {};
    // To be differentiated again: as a function of the input, with nothing rounded in between.
    (@again output $Op:ident $call:ident $g:ident $spec:ident $limit:ident) => {
        if $call.inputs[0].is_traced() {
            let composed = Program::record(2, |v| {
                Gradient { limit: $limit }.f([v[0], $Op.f([v[1]])])
            });
            return $call.one(|| autodiff::formula(composed, &[$g, $call.inputs[0]], $spec));
        }
    };
    (@pick x $call:ident) => { $call.inputs[0] };
    (@pick output $call:ident) => { $call.output() };
    (@backward x $x:ident $Op:ident $g:ident) => {{
        let output = husk($x.shape(), $x.dtype())?;
        let [grad] = backward_of(&$Op, $g, &[$x], &output)?;
        Ok(grad)
    }};
    (@backward output $output:ident $Op:ident $g:ident) => {{
        let x = husk($output.shape(), $output.dtype())?;
        let [grad] = backward_of(&$Op, $g, &[&x], $output)?;
        Ok(grad)
    }};
}
pub(super) use unary;
