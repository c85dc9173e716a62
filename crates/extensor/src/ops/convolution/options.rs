//! What callers say of a convolution: numbers for axes, and options.

use super::window::Window;
use crate::autodiff::no_leaves;
use crate::ops::options::options;
use crate::ops::shape::bad_parameter;
use crate::{Error, Result};
use std::fmt;

/// A number for each of two axes, vertical and horizontal; one number stands for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(pub [i64; 2]);

/// A number for each of three axes, depth, height and width; one number stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple(pub [i64; 3]);

macro_rules! sizes_from {
    ($Sizes:ident, $n:literal: $($t:ty),*) => {$(
        impl From<$t> for $Sizes {
            fn from(all: $t) -> $Sizes {
                $Sizes([i64::try_from(all).unwrap_or(i64::MAX); $n])
            }
        }
        impl From<[$t; $n]> for $Sizes {
            fn from(each: [$t; $n]) -> $Sizes {
                $Sizes(each.map(|v| i64::try_from(v).unwrap_or(i64::MAX)))
            }
        }
    )*};
}

sizes_from!(Pair, 2: i32, i64, usize);
sizes_from!(Triple, 3: i32, i64, usize);

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [a, b] if a == b => write!(f, "{a}"),
            [a, b] => write!(f, "{a}×{b}"),
        }
    }
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [a, b, c] if a == b && b == c => write!(f, "{a}"),
            [a, b, c] => write!(f, "{a}×{b}×{c}"),
        }
    }
}

/// What is not as it is by default, in words; nothing if all is.
pub(crate) fn settings<T: fmt::Display>(all: &[(&str, T, bool)]) -> Option<String> {
    let given = all.iter().filter(|(_, _, default)| !default);
    let words: Vec<String> = given.map(|(name, value, _)| format!("{name} {value}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

no_leaves!(|x| Some(x.to_string()); Pair, Triple);
macro_rules! printed {
    ($Options:ident) => {
        no_leaves!(
            |x| {
                let plain = $Options::new();
                settings(&[
                    ("stride", x.stride, x.stride == plain.stride),
                    ("padding", x.padding, x.padding == plain.padding),
                    ("dilation", x.dilation, x.dilation == plain.dilation),
                    ("groups", x.groups.into(), x.groups == plain.groups),
                ])
            };
            $Options
        );
    };
}

printed!(ConvOptions);
printed!(Conv3dOptions);

options! {
    /// Where the windows of a convolution are: by default next to each other, without padding, with
    /// every input channel seen by every filter.
    ///
    /// Numbers may be one for both axes, or one for each; a convolution over one axis takes one.
    ///
    /// ```
    /// use extensor::ops::ConvOptions;
    /// use extensor::{DType, Tensor};
    /// let x = Tensor::ones([1, 4, 8, 8], DType::F32)?;
    /// let weight = Tensor::ones([6, 2, 3, 3], DType::F32)?;
    /// let options = ConvOptions::new().stride(2).padding([1, 0]).groups(2);
    /// assert_eq!(x.conv2d(&weight, None, options)?.shape(), [1, 6, 4, 3]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[derive(PartialEq, Eq)]
    pub struct ConvOptions {
        /// How far apart neighbouring windows are.
        stride: Pair = Pair([1; 2]),
        /// How many zeros surround an image.
        padding: Pair = Pair([0; 2]),
        /// How far apart neighbouring elements of a window are.
        dilation: Pair = Pair([1; 2]),
        /// How many rows and columns more a transposed convolution gives at the end.
        output_padding: Pair = Pair([0; 2]),
    }
    exactly {
        /// Into how many groups the channels are divided, each convolved by itself.
        groups: usize = 1,
    }
}

options! {
    /// Where the windows of a convolution over three axes are: by default next to each other, without
    /// padding, with every input channel seen by every filter.
    ///
    /// Numbers may be one for all axes, or one for each: depth, height, width.
    ///
    /// ```
    /// use extensor::ops::Conv3dOptions;
    /// use extensor::{DType, Tensor};
    /// let x = Tensor::ones([1, 4, 6, 8, 8], DType::F32)?;
    /// let weight = Tensor::ones([6, 2, 3, 3, 3], DType::F32)?;
    /// let options = Conv3dOptions::new().stride([1, 2, 2]).padding(1).groups(2);
    /// assert_eq!(x.conv3d(&weight, None, options)?.shape(), [1, 6, 6, 4, 4]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    #[derive(PartialEq, Eq)]
    pub struct Conv3dOptions {
        /// How far apart neighbouring windows are.
        stride: Triple = Triple([1; 3]),
        /// How many zeros surround a volume.
        padding: Triple = Triple([0; 3]),
        /// How far apart neighbouring elements of a window are.
        dilation: Triple = Triple([1; 3]),
        /// How many elements more along each axis a transposed convolution gives at the end.
        output_padding: Triple = Triple([0; 3]),
    }
    exactly {
        /// Into how many groups the channels are divided, each convolved by itself.
        groups: usize = 1,
    }
}

macro_rules! windows {
    ($Options:ident of $n:literal) => {
        impl $Options {
            /// The windows of a convolution over `axes` axes, which must not be asked for an
            /// `output_padding`.
            pub(super) fn window(self, op: &'static str, axes: usize) -> Result<Window> {
                if self.output_padding != Self::new().output_padding {
                    let expected = "0: only a transposed convolution has it".into();
                    let got = format!("{:?}", self.output_padding.0);
                    return Err(Error::Parameter {
                        op,
                        parameter: "output_padding",
                        expected,
                        got,
                    });
                }
                Ok(Window { output_padding: None, ..self.transposed(op, axes)? })
            }

            /// The windows of a transposed convolution.
            pub(super) fn transposed(self, op: &'static str, axes: usize) -> Result<Window> {
                let $Options { stride, padding, dilation, groups, output_padding } = self;
                let named = [
                    ("stride", stride),
                    ("padding", padding),
                    ("dilation", dilation),
                    ("output_padding", output_padding),
                ];
                for (parameter, given) in named {
                    if axes == 1 && given.0.iter().any(|&number| number != given.0[0]) {
                        return Err(bad_parameter(op, parameter, "one number", given.0));
                    }
                }
                let own = |given: [i64; $n], none: i64| {
                    let mut all = [none; 3];
                    all[3 - axes..].copy_from_slice(&given[$n - axes..]);
                    all
                };
                Ok(Window {
                    op,
                    axes,
                    stride: own(stride.0, 1),
                    padding: own(padding.0, 0),
                    dilation: own(dilation.0, 1),
                    groups: i64::try_from(groups).unwrap_or(i64::MAX),
                    output_padding: Some(own(output_padding.0, 0)),
                })
            }
        }
    };
}

windows!(ConvOptions of 2);
windows!(Conv3dOptions of 3);
