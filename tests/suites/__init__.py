"""Other projects' tests, run on this library: see README.md in this folder."""
