//! The macros of ExTensor.
//!
//! `#[derive(Tree)]`: a struct or enum of tensors, and of things made of tensors, as a tree. The fields are visited in order, under their names. A field marked `#[tree(static)]` is no part of
//! the tree: it is cloned. What is in a field marked `#[tree(buffer)]` is kept with the tree and is no
//! parameter: nothing is differentiated by it.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Code;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, Index, parse_macro_input, parse_quote};

mod aliases;
mod method;
mod source;

/// What others call the operations, as a list of pairs; for the library itself.
#[doc(hidden)]
#[proc_macro]
pub fn aliases(_: TokenStream) -> TokenStream {
    let pairs = aliases::ALIASES.iter().map(|(name, others)| quote!((#name, &[#(#others),*])));
    quote!(&[#(#pairs),*]).into()
}

/// Makes a function of tensors a method of `Tensor` too; for the library itself.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn method(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = parse_macro_input!(function as syn::ItemFn);
    method::with_method(function).unwrap_or_else(Error::into_compile_error).into()
}

/// Notes a function's signature and place for the reference, as `#[method]` does too; for the library
/// itself.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn noted(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = parse_macro_input!(function as syn::ItemFn);
    let noted = source::noted(&function);
    quote!(#function #noted).into()
}

/// See the crate's description.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn tree(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive(input).unwrap_or_else(Error::into_compile_error).into()
}

/// One shape of the type: all of a struct, or a variant of an enum.
struct Shape {
    /// What matches it and binds its fields by reference.
    pattern: Code,
    /// Calls that visit its fields.
    visits: Vec<Code>,
    /// Calls that visit its fields to change them.
    changes: Vec<Code>,
    /// Calls that describe it and its fields.
    said: Vec<Code>,
    /// Calls that tell the numbers in its fields, and that replace them.
    numbers: Vec<Code>,
    set_numbers: Vec<Code>,
    /// An expression that builds it from its fields mapped.
    rebuilt: Code,
}

fn derive(mut input: DeriveInput) -> syn::Result<Code> {
    let shapes: Vec<Shape> = match &input.data {
        Data::Struct(data) => vec![shape(&quote!(Self), &input.ident, &data.fields)?],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let name = &variant.ident;
                shape(&quote!(Self::#name), name, &variant.fields)
            })
            .collect::<syn::Result<_>>()?,
        Data::Union(data) => {
            return Err(Error::new(data.union_token.span, "a union cannot be a tree"));
        }
    };
    let parameters: Vec<syn::Ident> =
        input.generics.type_params().map(|p| p.ident.clone()).collect();
    let bounds = input.generics.make_where_clause();
    for parameter in parameters {
        bounds.predicates.push(parse_quote!(#parameter: ::extensor::Tree));
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let visits =
        shapes.iter().map(|Shape { pattern, visits, .. }| quote!(#pattern => { #(#visits)* }));
    let maps = shapes.iter().map(|Shape { pattern, rebuilt, .. }| quote!(#pattern => #rebuilt));
    let changes =
        shapes.iter().map(|Shape { pattern, changes, .. }| quote!(#pattern => { #(#changes)* }));
    let said = shapes.iter().map(|Shape { pattern, said, .. }| quote!(#pattern => { #(#said)* }));
    // An enum without variants has nothing to match.
    let numbers =
        shapes.iter().map(|Shape { pattern, numbers, .. }| quote!(#pattern => { #(#numbers)* }));
    let set_numbers = shapes
        .iter()
        .map(|Shape { pattern, set_numbers, .. }| quote!(#pattern => { #(#set_numbers)* }));
    let (visits, maps, changes, said, numbers, set_numbers) = if shapes.is_empty() {
        let never = quote!(match *self {});
        (never.clone(), never.clone(), never.clone(), never.clone(), never.clone(), never)
    } else {
        (
            quote!(match self { #(#visits)* }),
            quote!(match self { #(#maps,)* }),
            quote!(match self { #(#changes)* }),
            quote!(match self { #(#said)* }),
            quote!(match self { #(#numbers)* }),
            quote!(match self { #(#set_numbers)* }),
        )
    };
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, clippy::all)]
        impl #generics ::extensor::Tree for #name #arguments #bounds {
            fn visit<'tree>(
                &'tree self,
                path: &::extensor::autodiff::Path<'_>,
                f: &mut dyn FnMut(
                    &::extensor::autodiff::Path<'_>,
                    &'tree ::extensor::Tensor,
                ) -> ::extensor::Result<()>,
            ) -> ::extensor::Result<()> {
                #visits
                Ok(())
            }
            fn map(
                &self,
                path: &::extensor::autodiff::Path<'_>,
                f: &mut dyn FnMut(
                    &::extensor::autodiff::Path<'_>,
                    &::extensor::Tensor,
                ) -> ::extensor::Result<::extensor::Tensor>,
            ) -> ::extensor::Result<Self> {
                Ok(#maps)
            }
            fn visit_mut(
                &mut self,
                path: &::extensor::autodiff::Path<'_>,
                f: &mut dyn FnMut(
                    &::extensor::autodiff::Path<'_>,
                    &mut ::extensor::Tensor,
                ) -> ::extensor::Result<()>,
            ) -> ::extensor::Result<()> {
                #changes
                Ok(())
            }
            fn describe(
                &self,
                path: &::extensor::autodiff::Path<'_>,
                f: &mut dyn FnMut(&::extensor::autodiff::Path<'_>, ::extensor::autodiff::Item<'_>),
            ) {
                #said
            }
            fn numbers(&self, f: &mut dyn FnMut(::extensor::Tensor)) {
                #numbers
            }
            fn set_numbers(
                &mut self,
                f: &mut dyn FnMut() -> ::extensor::Result<::extensor::Tensor>,
            ) -> ::extensor::Result<()> {
                #set_numbers
                Ok(())
            }
        }
    })
}

fn shape(constructor: &Code, name: &syn::Ident, fields: &Fields) -> syn::Result<Shape> {
    let mut patterns = Vec::new();
    let mut visits = Vec::new();
    let mut changes = Vec::new();
    let (mut numbers, mut set_numbers) = (Vec::new(), Vec::new());
    let name = name.to_string();
    let name = name.trim_start_matches("r#");
    let mut said = vec![quote!(f(path, ::extensor::autodiff::Item::Node(#name));)];
    let mut values = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let binding = format_ident!("field_{index}");
        let (member, place) = match &field.ident {
            Some(name) => {
                // A raw identifier's name is what follows `r#`.
                let text = name.to_string();
                let text = text.trim_start_matches("r#").to_string();
                (quote!(#name), quote!(path.field(#text)))
            }
            None => {
                let number = Index::from(index);
                (quote!(#number), quote!(path.item(#index)))
            }
        };
        patterns.push(quote!(#member: #binding));
        let mark = mark(field)?;
        let place = if mark == Mark::Buffer { quote!(#place.buffer()) } else { place };
        if mark != Mark::Static || is_number(&field.ty) {
            said.push(quote!(::extensor::Tree::describe(#binding, &#place, f);));
        }
        if mark == Mark::Static {
            values.push(quote!(#member: ::core::clone::Clone::clone(#binding)));
        } else {
            changes.push(quote!(::extensor::Tree::visit_mut(#binding, &#place, f)?;));
            numbers.push(quote!(::extensor::Tree::numbers(#binding, f);));
            set_numbers.push(quote!(::extensor::Tree::set_numbers(#binding, f)?;));
            visits.push(quote!(::extensor::Tree::visit(#binding, &#place, f)?;));
            values.push(quote!(#member: ::extensor::Tree::map(#binding, &#place, f)?));
        }
    }
    let pattern = quote!(#constructor { #(#patterns),* });
    let rebuilt = quote!(#constructor { #(#values),* });
    Ok(Shape { pattern, visits, changes, said, numbers, set_numbers, rebuilt })
}

/// Whether a type is one of the language's numbers or `bool`, which are trees whatever they are marked as.
fn is_number(ty: &syn::Type) -> bool {
    const NUMBERS: [&str; 9] = ["bool", "f32", "f64", "i32", "i64", "u32", "u64", "usize", "isize"];
    match ty {
        syn::Type::Path(path) => NUMBERS.iter().any(|name| path.path.is_ident(name)),
        _ => false,
    }
}

/// What a field is marked as.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    None,
    Static,
    Buffer,
}

fn mark(field: &Field) -> syn::Result<Mark> {
    let mut mark = Mark::None;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        attribute.parse_nested_meta(|meta| {
            mark = if meta.path.is_ident("static") {
                Mark::Static
            } else if meta.path.is_ident("buffer") {
                Mark::Buffer
            } else {
                return Err(meta.error("expected `static` or `buffer`"));
            };
            Ok(())
        })?;
    }
    Ok(mark)
}
