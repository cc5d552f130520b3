"""Reductions and running values: moments, places, histograms, scans, sets.

May use `move` and the rooms below it, down to `backend`.
"""
