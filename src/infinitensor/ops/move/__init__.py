"""Ops that move elements and compute nothing: shapes, joins, indices, masks, writes.

May use `linalg` and the rooms below it, down to `backend`.
"""
