"""Reading and writing parts of tensors: indices, masks, in-place operators, copies, scalars.

May use `small` and the rooms below it, down to `session`.
"""
