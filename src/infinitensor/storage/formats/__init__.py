"""Users' files: .npy, Zarr and memory maps, read and written box by box.

May use the room `file_io` below it.
"""
