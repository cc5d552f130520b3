"""Kernels for CPUs, written as C (or Numba) source, with the headers they include."""
