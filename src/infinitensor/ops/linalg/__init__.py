"""Products and factorisations of matrices, einsum, sparse products."""
