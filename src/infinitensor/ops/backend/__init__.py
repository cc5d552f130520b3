"""What kernels run on: C loops, BLAS, torch where it is needed."""
