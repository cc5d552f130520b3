"""Arrays, frames, sparse matrices and files become tensors, and tensors become files."""
