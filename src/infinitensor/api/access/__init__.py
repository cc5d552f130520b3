"""Reading and writing parts of tensors: indices, masks, in-place operators, copies, scalars."""
