//! The windows of pooling, as callers say them.

use crate::autodiff::no_leaves;
use crate::ops::convolution::settings;
use crate::ops::{Pair, Triple};

macro_rules! pool_options {
    ($(#[$doc:meta])* $Options:ident of $Sizes:ident, $n:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $Options {
            /// The size of a window.
            pub kernel_size: $Sizes,
            /// From one window to the next: the size of a window, unless given.
            pub stride: Option<$Sizes>,
            /// How far windows reach over the edges: at most half of a window.
            pub padding: $Sizes,
            /// How far apart neighbouring numbers of a window are. Averages have no such option.
            pub dilation: $Sizes,
            /// Whether a last window counts that begins on the axis but ends behind it.
            pub ceil_mode: bool,
            /// Whether an average counts the zeros of the padding. The largest number has no such option.
            pub count_include_pad: bool,
            /// What sums are divided by, if not by what they count. Likewise.
            pub divisor_override: Option<i64>,
        }

        impl $Options {
            /// Windows of this size, next to each other.
            pub fn new(kernel_size: impl Into<$Sizes>) -> $Options {
                $Options {
                    kernel_size: kernel_size.into(),
                    stride: None,
                    padding: $Sizes([0; $n]),
                    dilation: $Sizes([1; $n]),
                    ceil_mode: false,
                    count_include_pad: true,
                    divisor_override: None,
                }
            }

            /// With windows this far apart.
            #[must_use]
            pub fn stride(self, stride: impl Into<$Sizes>) -> $Options {
                $Options { stride: Some(stride.into()), ..self }
            }

            /// With windows that reach this far over the edges.
            #[must_use]
            pub fn padding(self, padding: impl Into<$Sizes>) -> $Options {
                $Options { padding: padding.into(), ..self }
            }

            /// With the numbers of a window this far apart.
            #[must_use]
            pub fn dilation(self, dilation: impl Into<$Sizes>) -> $Options {
                $Options { dilation: dilation.into(), ..self }
            }

            /// With a last window that begins on the axis but ends behind it, or without.
            #[must_use]
            pub fn ceil_mode(self, ceil_mode: bool) -> $Options {
                $Options { ceil_mode, ..self }
            }

            /// With the zeros of the padding counted, or not.
            #[must_use]
            pub fn count_include_pad(self, count_include_pad: bool) -> $Options {
                $Options { count_include_pad, ..self }
            }

            /// With sums divided by this number.
            #[must_use]
            pub fn divisor_override(self, divisor: impl Into<Option<i64>>) -> $Options {
                $Options { divisor_override: divisor.into(), ..self }
            }
        }

        no_leaves!(
            |x| {
                let mut words = vec![("kernel", x.kernel_size.to_string(), false)];
                let stride = x.stride.unwrap_or(x.kernel_size);
                words.push(("stride", stride.to_string(), x.stride.is_none()));
                words.push(("padding", x.padding.to_string(), x.padding == $Sizes([0; $n])));
                words.push(("dilation", x.dilation.to_string(), x.dilation == $Sizes([1; $n])));
                words.push(("ceil_mode", x.ceil_mode.to_string(), !x.ceil_mode));
                let padded = x.count_include_pad;
                words.push(("count_include_pad", padded.to_string(), padded));
                let divisor = x.divisor_override.unwrap_or(0);
                words.push(("divisor", divisor.to_string(), x.divisor_override.is_none()));
                settings(&words)
            };
            $Options
        );

        impl<K> From<K> for $Options
        where
            $Sizes: From<K>,
        {
            fn from(kernel_size: K) -> $Options {
                $Options::new(kernel_size)
            }
        }
    };
}

pool_options! {
    /// The windows that pooling slides over images ([`maxpool2d`](crate::ops::maxpool2d),
    /// [`avgpool2d`](crate::ops::avgpool2d)) and over sequences, of which both numbers are the same.
    ///
    /// A window's size alone, one for both axes or `[height, width]`, can be written wherever these are
    /// expected: the windows then lie next to each other.
    ///
    /// ```
    /// use extensor::ops::PoolOptions;
    /// use extensor::{DType, Tensor};
    /// let x = Tensor::ones([1, 1, 8, 8], DType::F32)?;
    /// assert_eq!(x.maxpool2d(2)?.shape(), [1, 1, 4, 4]);
    /// let options = PoolOptions::new(3).stride(2).padding(1);
    /// assert_eq!(x.maxpool2d(options)?.shape(), [1, 1, 4, 4]);
    /// assert_eq!(x.maxpool2d(PoolOptions::new(3).ceil_mode(true))?.shape(), [1, 1, 3, 3]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    PoolOptions of Pair, 2
}

pool_options! {
    /// The windows that pooling slides over volumes ([`maxpool3d`](crate::ops::maxpool3d),
    /// [`avgpool3d`](crate::ops::avgpool3d)).
    ///
    /// A window's size alone, one for all axes or `[depth, height, width]`, can be written wherever these
    /// are expected: the windows then lie next to each other.
    ///
    /// ```
    /// use extensor::ops::Pool3dOptions;
    /// use extensor::{DType, Tensor};
    /// let x = Tensor::ones([1, 1, 4, 8, 8], DType::F32)?;
    /// assert_eq!(x.maxpool3d(2)?.shape(), [1, 1, 2, 4, 4]);
    /// let options = Pool3dOptions::new([1, 3, 3]).stride([1, 2, 2]).padding([0, 1, 1]);
    /// assert_eq!(x.maxpool3d(options)?.shape(), [1, 1, 4, 4, 4]);
    /// # Ok::<(), extensor::Error>(())
    /// ```
    Pool3dOptions of Triple, 3
}
