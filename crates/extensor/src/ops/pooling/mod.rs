//! Sums and maxima over windows of an image.
