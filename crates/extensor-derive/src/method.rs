//! `#[method]`: a function whose first argument is a tensor is a method of the tensor too; another is
//! an associated function. There is no list of methods that could differ from that of functions.

use crate::{aliases, source};
use proc_macro2::TokenStream as Code;
use quote::quote;
use syn::{Attribute, Error, Expr, FnArg, ItemFn, Lit, Meta, Pat, Type};

/// The function, and beside it the method that calls it.
pub(crate) fn with_method(function: ItemFn) -> syn::Result<Code> {
    let signature = &function.sig;
    let name = &signature.ident;
    let mut arguments = Vec::new();
    let mut values = Vec::new();
    for (index, argument) in signature.inputs.iter().enumerate() {
        let FnArg::Typed(typed) = argument else {
            return Err(Error::new_spanned(argument, "a method already"));
        };
        let Pat::Ident(pattern) = &*typed.pat else {
            return Err(Error::new_spanned(&typed.pat, "an argument of a method has a name"));
        };
        if index == 0 && is_tensor(&typed.ty) {
            arguments.push(quote!(&self));
            values.push(quote!(self));
        } else {
            let value = &pattern.ident;
            arguments.push(quote!(#argument));
            values.push(quote!(#value));
        }
    }
    let (output, generics) = (&signature.output, &signature.generics);
    let docs = summary(&function.attrs);
    // `where_` is called `where` by the catalogue.
    let known = name.to_string();
    let known = known.trim_end_matches('_');
    let others: Vec<&str> =
        aliases::of(known).iter().copied().filter(|other| *name != other).collect();
    let see = format!("See the function [`{name}`]({name}()) for all there is to say of it.");
    let noted = source::noted(&function);
    Ok(quote! {
        #(#[doc(alias = #others)])*
        #function

        #noted

        impl crate::Tensor {
            #(#docs)*
            #(#[doc(alias = #others)])*
            #[doc = ""]
            #[doc = #see]
            #[inline]
            #[track_caller]
            pub fn #name #generics (#(#arguments),*) #output {
                self::#name(#(#values),*)
            }
        }
    })
}

/// Whether this is `&Tensor`.
fn is_tensor(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else { return false };
    matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("Tensor"))
}

/// The first paragraph of the documentation.
fn summary(attributes: &[Attribute]) -> Vec<&Attribute> {
    let mut ended = false;
    let doc = |attribute: &&Attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => {
            ended |= matches!(&meta.value, Expr::Lit(text) if
                matches!(&text.lit, Lit::Str(text) if text.value().trim().is_empty()));
            !ended
        }
        _ => false,
    };
    attributes.iter().filter(doc).collect()
}
