//! Options with defaults, for operations that have more than one thing that may be left out.

/// Defines a struct of options: `new()` has the defaults, and each option is set by its name, from
/// anything that converts into its type; those after `exactly` take their type itself, so that a
/// literal has that type.
macro_rules! options {
    (
        $(#[$doc:meta])*
        pub struct $Options:ident $(<$life:lifetime>)? {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)*
        }
        $(exactly { $($(#[$plain_doc:meta])* $plain:ident: $plain_type:ty = $plain_default:expr,)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Options $(<$life>)? {
            $($(#[$field_doc])* pub $field: $type,)*
            $($($(#[$plain_doc])* pub $plain: $plain_type,)*)?
        }

        impl $(<$life>)? Default for $Options $(<$life>)? {
            fn default() -> Self {
                $Options { $($field: $default,)* $($($plain: $plain_default,)*)? }
            }
        }

        impl $(<$life>)? $Options $(<$life>)? {
            /// The defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$field_doc])*
                #[must_use]
                pub fn $field(mut self, $field: impl Into<$type>) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
            $($(
                $(#[$plain_doc])*
                #[must_use]
                pub fn $plain(mut self, $plain: $plain_type) -> Self {
                    self.$plain = $plain;
                    self
                }
            )*)?
        }
    };
}
pub(super) use options;
