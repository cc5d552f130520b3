"""Benchmarks: a question each, a table of cases, and both numbers beside every claim."""
