"""The op table: what can be computed, one entry an op. Importing the package fills it."""

from infinitensor.ops.create import creation, grid  # noqa: F401 - chapters enter their ops when imported
from infinitensor.ops.elementwise import (  # noqa: F401 - chapters enter their ops when imported
    bits,
    closeness,
    elementwise,
    parts,
)
from infinitensor.ops.forms import gather, reduction  # noqa: F401 - chapters enter their ops when imported
from infinitensor.ops.linalg import (  # noqa: F401 - chapters enter their ops when imported
    contraction,
    einsum,
    factor,
    linalg,
    norm,
    products,
    sparse,
    spectral,
    triangular,
)
from infinitensor.ops.move import (  # noqa: F401 - chapters enter their ops when imported
    diagonal,
    index,
    join,
    mask,
    pad,
    repeat,
    scatter,
    selection,
    shapes,
    write,
)
from infinitensor.ops.points import (  # noqa: F401 - chapters enter their ops when imported
    columns,
    distance,
    nearest,
    pairorder,
    pairs,
    prim,
)
from infinitensor.ops.random import (  # noqa: F401 - chapters enter their ops when imported
    distributions,
    random,
    rejection,
    sampling,
)
from infinitensor.ops.reduce import (  # noqa: F401 - chapters enter their ops when imported
    fold,
    histogram,
    logsumexp,
    moment,
    nan,
    position,
    scan,
    sets,
    statistics,
)
from infinitensor.ops.signal import (  # noqa: F401 - chapters enter their ops when imported
    calculus,
    fourier,
    longfft,
    polynomial,
    signal,
)
from infinitensor.ops.sorting import (  # noqa: F401 - chapters enter their ops when imported
    order,
    orderstat,
    quantile,
    ranking,
    search,
)
from infinitensor.ops.table import check  # noqa: F401 - chapters enter their ops when imported
from infinitensor.ops.table.registry import TABLE

__all__ = ["TABLE"]
