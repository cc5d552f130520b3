"""Tiles that left memory, each a file with checksums.

May use `formats` and the rooms below it, down to `file_io`.
"""
