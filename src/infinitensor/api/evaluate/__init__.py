"""What waits becomes a program: bound to stored tensors, planned, run, and explained."""
