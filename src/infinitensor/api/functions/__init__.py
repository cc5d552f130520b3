"""What users call: NumPy's functions, ufuncs and random numbers over tensors. The top row."""
