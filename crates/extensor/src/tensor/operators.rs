//! `&a + &b` and the like.
//!
//! The operators panic, at the caller's line, with the sentence that the named function would have
//! returned as an error, as integer overflow does; where shapes come from outside, call
//! [`add`](crate::ops::add) and its siblings.

use crate::{DType, Result, Tensor, ops};
use std::ops::{Add, Div, Mul, Neg, Sub};

#[track_caller]
fn unwrap(result: Result<Tensor>) -> Tensor {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// A number beside a tensor takes the tensor's dtype.
fn scalar(value: f64, dtype: DType) -> Result<Tensor> {
    Tensor::scalar_of(value, dtype)
}

macro_rules! operator {
    ($($trait:ident $method:ident $function:ident),*) => {$(
        impl $trait<&Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                unwrap(ops::$function(self, other))
            }
        }
        impl $trait<Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                unwrap(ops::$function(&self, &other))
            }
        }
        impl $trait<&Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                unwrap(ops::$function(&self, other))
            }
        }
        impl $trait<Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                unwrap(ops::$function(self, &other))
            }
        }
        impl $trait<f64> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor {
                unwrap(scalar(other, self.dtype()).and_then(|other| ops::$function(self, &other)))
            }
        }
        impl $trait<f64> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor {
                $trait::$method(&self, other)
            }
        }
        impl $trait<&Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                unwrap(scalar(self, other.dtype()).and_then(|this| ops::$function(&this, other)))
            }
        }
        impl $trait<Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                self.$method(&other)
            }
        }
    )*};
}

operator!(Add add add, Sub sub subtract, Mul mul multiply, Div div divide);

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        unwrap(ops::negate(self))
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        -&self
    }
}
