"""Arrays, frames, sparse matrices and files become tensors, and tensors become files.

May use `tensor` and the rooms below it, down to `session`.
"""
