"""The table of ops and the words their kernels are written in."""
