"""What users call: tensors, functions, sessions. Recording, and asking for values."""
