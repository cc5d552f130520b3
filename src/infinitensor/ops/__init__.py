"""The op table: what can be computed, one entry an op. Importing the package fills it."""

from infinitensor.ops.create import creation, index_grids  # noqa: F401 - chapters enter their ops when imported
from infinitensor.ops.elementwise import (  # noqa: F401 - chapters enter their ops when imported
    closeness,
    elementwise,
    packbits,
    two_outputs,
)
from infinitensor.ops.forms import gather, reduction  # noqa: F401 - chapters enter their ops when imported
from infinitensor.ops.linalg import (  # noqa: F401 - chapters enter their ops when imported
    csr_matmul,
    einsum,
    factor,
    matmul,
    norm,
    products,
    solve,
    spectral,
    triangular,
)
from infinitensor.ops.move import (  # noqa: F401 - chapters enter their ops when imported
    diagonal,
    join,
    mask,
    pad,
    repeat,
    reshape,
    scatter,
    selection,
    take,
    write_op,
)
from infinitensor.ops.points import (  # noqa: F401 - chapters enter their ops when imported
    centres,
    column_stats,
    distances,
    kd_order,
    pairs,
    prim,
)
from infinitensor.ops.random import (  # noqa: F401 - chapters enter their ops when imported
    counter_rng,
    distributions,
    rejection,
    sampling,
)
from infinitensor.ops.reduce import (  # noqa: F401 - chapters enter their ops when imported
    argminmax_topk,
    histogram,
    logsumexp,
    moments,
    nan,
    scan,
    sets,
    statistics,
    ufunc_reduce,
)
from infinitensor.ops.signal import (  # noqa: F401 - chapters enter their ops when imported
    calculus,
    convolve,
    fft,
    long_fft,
    polynomial,
)
from infinitensor.ops.sorting import (  # noqa: F401 - chapters enter their ops when imported
    lexsort_partition,
    quantile,
    rank_select,
    searchsorted,
    sort,
)
from infinitensor.ops.table import checks  # noqa: F401 - chapters enter their ops when imported
from infinitensor.ops.table.registry import TABLE

__all__ = ["TABLE"]
