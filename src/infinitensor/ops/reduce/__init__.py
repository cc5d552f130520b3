"""Reductions and running values: moments, places, histograms, scans, sets."""
