"""The Tensor class: its methods, views, printing, export and NumPy's protocols.

May use `access` and the rooms below it, down to `session`.
"""
