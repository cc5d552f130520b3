"""The languages between the stages: frozen dataclasses, nothing that runs."""
