"""Kernels for GPUs, written as Triton source."""
