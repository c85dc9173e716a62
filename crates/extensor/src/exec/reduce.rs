//! Many numbers to one, along some axes.

use super::{Call, Kernel, Kind};
use crate::tensor::{match_float, match_int, match_words};
use crate::{DType, Result};
use extensor_kernels::map::RealBlock;
use extensor_kernels::reduce::{self, Arithmetic, Which};
use smallvec::SmallVec;
use std::num::Wrapping;
use std::ops::Deref;
use std::sync::Arc;

/// Which axes are reduced.
pub(crate) type Reduced = SmallVec<[bool; 6]>;

/// What becomes of the numbers of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fold {
    Sum,
    Mean,
    Product,
    Maximum,
    Minimum,
    /// Whether any of a mask is true.
    Any,
    /// Whether all of a mask are.
    All,
    /// The sum of squared deviations from the mean over the count less `ddof`.
    Variance {
        ddof: usize,
    },
    /// Its root.
    Deviation {
        ddof: usize,
    },
    /// The root of the sum of squares.
    Norm,
    LogSumExp,
    /// The position, as `i64`, of the first largest or smallest.
    Position(Which),
}

/// A fold along axes, which somebody lists.
#[derive(Debug)]
pub(crate) struct Reduce<O> {
    pub fold: Fold,
    pub over: O,
}

impl<O: Deref<Target = [bool]> + Send + Sync> Kernel for Reduce<O> {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let x = call.inputs[0];
        // By far the most frequent, apart from what needs room for all the others.
        if self.fold == Fold::Sum && x.dtype() == DType::F32 {
            reduce::float_sum(x.view::<f32>(), &self.over, call.out());
            return Ok(());
        }
        self.fold.by_dtype(&self.over, call)
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Reduce(self.fold, &self.over)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(Reduce { fold: self.fold, over: Reduced::from_slice(&self.over) })
    }
}

impl Fold {
    #[inline(never)]
    fn by_dtype(self, over: &[bool], mut call: Call<'_, '_>) -> Result<()> {
        let x = call.inputs[0];
        let dtype = x.dtype();
        macro_rules! floats {
            (|$view:ident, $out:ident| $run:expr) => {
                match_float!(dtype, T => {
                    let ($view, $out) = (x.view::<T>(), call.out::<T>());
                    $run;
                    Ok(())
                }, else call.wrong("x", "a float type", dtype))
            };
        }
        macro_rules! sums {
            ($floats:path, $words:path) => {
                match_float!(dtype, T => {
                    $floats(x.view::<T>(), over, call.out());
                    Ok(())
                }, else match_words!(dtype, T => {
                    $words(x.view::<T>(), over, call.out());
                    Ok(())
                }))
            };
        }
        macro_rules! extreme {
            ($kernel:path) => {
                match_float!(dtype, T => {
                    $kernel(x.view::<T>(), over, call.out());
                    Ok(())
                }, else match_int!(dtype, T => {
                    $kernel(x.view::<T>(), over, call.out());
                    Ok(())
                }, else call.wrong("x", "a number type", dtype)))
            };
        }
        macro_rules! masks {
            ($kernel:path) => {{
                let out = call.out::<Wrapping<u8>>();
                $kernel(x.view(), over, out);
                // What there is none of is all ones, or none.
                out.iter_mut().for_each(|y| *y = Wrapping(u8::from(y.0 != 0)));
                Ok(())
            }};
        }
        match self {
            Fold::Sum => sums!(reduce::float_sum, reduce::sum),
            Fold::Product => sums!(reduce::float_product, reduce::product),
            Fold::Maximum => extreme!(reduce::maximum),
            Fold::Minimum => extreme!(reduce::minimum),
            Fold::Any => masks!(reduce::maximum),
            Fold::All => masks!(reduce::minimum),
            Fold::Mean => floats!(|x, out| reduce::mean(x, over, out)),
            Fold::Variance { ddof } => floats!(|x, out| reduce::variance(x, over, ddof, out)),
            Fold::Deviation { ddof } => floats!(|x, out| reduce::std(x, over, ddof, out)),
            Fold::Norm => floats!(|x, out| reduce::norm(x, over, out)),
            Fold::LogSumExp => floats!(|x, out| reduce::logsumexp(x, over, out)),
            Fold::Position(which) => {
                let out = call.out::<i64>();
                match_float!(dtype, T => reduce::arg::<T>(which, x.view(), over, out), else {
                    match_int!(dtype, T => reduce::arg::<T>(which, x.view(), over, out), else {
                        reduce::arg::<Wrapping<u8>>(which, x.view(), over, out)
                    })
                });
                Ok(())
            }
        }
    }
}

/// The sum of a formula of two arrays of one shape, over a divisor.
pub(crate) struct MapSum<P> {
    pub formula: P,
    pub divisor: f64,
}

impl<P> Kernel for MapSum<P>
where
    P: Deref<Target = dyn RealBlock<2>> + Send + Sync,
{
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let [a, b] = [call.inputs[0], call.inputs[1]];
        match_float!(call.dtype(), T => {
            let sum = reduce::map_sum::<T, 2>(&*self.formula, [a.view(), b.view()], self.divisor);
            call.out::<T>()[0] = <T as Arithmetic>::round(sum);
            Ok(())
        }, else call.wrong("x", "a float type", call.dtype()))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::MapSum(&*self.formula, self.divisor)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(MapSum { formula: self.formula.keep(), divisor: self.divisor })
    }
}

/// The gradient of the largest or smallest along axes, shared equally among equals, from the numbers
/// and the output's gradient; both must lie in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct ExtremeGradient {
    pub which: Which,
    pub over: Reduced,
}

impl Kernel for ExtremeGradient {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let [x, g] = [call.inputs[0], call.inputs[1]];
        match_float!(call.dtype(), T => {
            let (over, out) = (&self.over, call.out::<T>());
            reduce::extreme_gradient(self.which, x.row_major(), x.shape(), over, g.row_major(), out);
            Ok(())
        }, else call.wrong("x", "a float type", call.dtype()))
    }
    fn kind(&self) -> Kind<'_> {
        Kind::ExtremeGradient(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

/// What is added up or multiplied from one end of an axis to the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scan {
    /// Sums, from the end if `reverse`.
    Sums { axis: usize, reverse: bool },
    /// Products.
    Products { axis: usize },
    /// Logarithms of sums of exponentials; floats only.
    LogSums { axis: usize },
    /// `y[i] = b[i] + a[i]·y[i − 1]` of `a` and `b` in row-major order, from the end if `reverse`;
    /// with `cut` nothing comes of what is before an `a` of 0. `f32` and `f64` only.
    Recurrence { axis: usize, reverse: bool, cut: bool },
}

impl Kernel for Scan {
    fn run(&self, mut call: Call<'_, '_>) -> Result<()> {
        let (x, dtype) = (call.inputs[0], call.dtype());
        macro_rules! scan {
            (|$out:ident| $run:expr) => {
                match_float!(dtype, T => {
                    let $out = call.out::<T>();
                    $run;
                    Ok(())
                }, else match_words!(dtype, T => {
                    let $out = call.out::<T>();
                    $run;
                    Ok(())
                }))
            };
        }
        match *self {
            Scan::Sums { axis, reverse } => {
                scan!(|out| reduce::cumsum(x.view(), axis, reverse, out))
            }
            Scan::Products { axis } => scan!(|out| reduce::cumprod(x.view(), axis, out)),
            Scan::LogSums { axis } => match_float!(dtype, T => {
                reduce::logcumsumexp(x.view(), axis, call.out::<T>());
                Ok(())
            }, else call.wrong("x", "a float type", dtype)),
            Scan::Recurrence { axis, reverse, cut } => {
                let (b, shape) = (call.inputs[1], x.shape());
                let sizes = [shape[axis], shape[axis + 1..].iter().product()];
                macro_rules! run {
                    ($t:ty) => {{
                        let (a, b) = (x.row_major::<$t>(), b.row_major());
                        reduce::recurrence(a, b, sizes, [reverse, cut], call.out::<$t>());
                        Ok(())
                    }};
                }
                match dtype {
                    DType::F32 => run!(f32),
                    DType::F64 => run!(f64),
                    got => call.wrong("b", "f32 or f64", got),
                }
            }
        }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Scan(self)
    }
    fn keep(&self) -> Arc<dyn Kernel> {
        Arc::new(*self)
    }
}
