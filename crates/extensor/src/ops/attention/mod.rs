//! Averages of values, weighted by the likeness of queries and keys.
