//! The tensor itself: made, read back, shared, printed, compared, and what it refuses.

mod compare;
mod create;
mod dtype;
mod errors;
mod print;
mod random;
mod read;
mod shape;
mod traced;
