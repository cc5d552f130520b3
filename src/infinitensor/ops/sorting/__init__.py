"""Sorting, searching, ranks and quantiles."""
