"""What lies where while a program runs: tables, tiles, steps, and whom an error is told of.

The lowest room of `runtime`: it uses none of the others.
"""
