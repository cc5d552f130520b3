"""Fourier transforms, convolutions, differences and polynomials."""
