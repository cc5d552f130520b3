"""The op table: what can be computed, one entry an op. Importing the package fills it."""

from infinitensor.ops import (  # noqa: F401 - chapters enter their ops when imported
    contraction,
    creation,
    distributions,
    elementwise,
    factor,
    fold,
    fourier,
    gather,
    index,
    linalg,
    logsumexp,
    moment,
    norm,
    order,
    parts,
    position,
    random,
    reduction,
    rejection,
    sampling,
    scan,
    sparse,
    spectral,
    write,
)
from infinitensor.ops.registry import TABLE

__all__ = ["TABLE"]
