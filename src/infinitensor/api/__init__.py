"""The public interface: tensors, functions, sessions. Recording, and asking for values."""
