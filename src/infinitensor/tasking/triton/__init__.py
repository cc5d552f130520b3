"""Kernels for GPUs, written as Triton source.

May use the room `c` below it.
"""
