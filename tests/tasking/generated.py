"""What tests of generated code have in common."""

ULPS = 8
"""How far two values of a function may be apart: NumPy's vector functions promise 4 units in the
last place (on x86 they use them all), the functions of C libraries 3."""
