//! `vmap` is a loop over examples: for every operation, in every order with derivatives, and for what
//! users define.

mod catalogue;
mod close;
mod nested;
mod options;
mod random;
