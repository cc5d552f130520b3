"""Calls on small values on the host: NumPy runs them at once, from C where it can be compiled.

May use `record` and the rooms below it, down to `session`.
"""
