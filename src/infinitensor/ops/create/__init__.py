"""Ops without operands: ranges, grids, constants.

May use `forms` and the rooms below it, down to `backend`.
"""
