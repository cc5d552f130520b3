"""Ops that move elements and compute nothing: shapes, joins, indices, masks, writes."""
