//! Numbers brought to mean 0 and variance 1, or to norm 1.
