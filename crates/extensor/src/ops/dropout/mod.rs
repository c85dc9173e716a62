//! Numbers left out at random, from a key.
