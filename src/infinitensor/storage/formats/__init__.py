"""Users' files: .npy, Zarr and memory maps, read and written box by box."""
