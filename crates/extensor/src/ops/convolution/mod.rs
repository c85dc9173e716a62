//! Sums over windows of an image, with weights.
