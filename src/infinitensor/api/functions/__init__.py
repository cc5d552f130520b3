"""The public functions: NumPy's functions, ufuncs and random numbers over tensors.

May use `known` and the rooms below it, down to `session`.
"""
