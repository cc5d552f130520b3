"""The base of kernels: C loops, BLAS, torch where it is needed.

The lowest room of `ops`: it uses none of the others.
"""
