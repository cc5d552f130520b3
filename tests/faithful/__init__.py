"""Random programs give what NumPy gives."""
