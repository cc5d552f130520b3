"""Fourier transforms, convolutions, differences and polynomials.

May use `points` and the rooms below it, down to `backend`.
"""
