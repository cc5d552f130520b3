"""Kernels for CPUs, written as C (or Numba) source, with the headers they include.

The lowest room of `tasking`: it uses none of the others.
"""
