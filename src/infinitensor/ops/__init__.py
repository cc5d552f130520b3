"""The op table: what can be computed, one entry an op. Importing the package fills it."""

from infinitensor.ops import (  # noqa: F401 - chapters enter their ops when imported
    contraction,
    creation,
    elementwise,
    fourier,
    gather,
    index,
    linalg,
    order,
    random,
    reduction,
    scan,
    write,
)
from infinitensor.ops.registry import TABLE

__all__ = ["TABLE"]
