"""The places of tiles while a program runs: tables, tiles, steps, and reports of errors.

The lowest room of `runtime`: it uses none of the others.
"""
