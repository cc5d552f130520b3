"""The Tensor class: its methods, views, printing, export and NumPy's protocols."""
