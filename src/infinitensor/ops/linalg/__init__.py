"""Products and factorisations of matrices, einsum, sparse products.

May use `sorting` and the rooms below it, down to `backend`.
"""
