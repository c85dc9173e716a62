//! Nonlinear functions between the layers of networks.
