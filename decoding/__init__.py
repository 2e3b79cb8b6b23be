"""Decide which token comes next, and why: pure code, no models, sockets, clocks or randomness of its own."""
