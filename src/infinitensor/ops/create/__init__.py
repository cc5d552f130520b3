"""Ops without operands: ranges, grids, constants."""
