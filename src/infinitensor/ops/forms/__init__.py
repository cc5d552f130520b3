"""Kinds of ops that others are made of: gathers and reductions over any op."""
