"""Calls on small values on the host: NumPy runs them at once, from C where it can be compiled."""
