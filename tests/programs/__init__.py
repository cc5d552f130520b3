"""NumPy programs, written as NumPy programs are, with `np` as a parameter."""
