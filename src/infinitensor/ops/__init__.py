"""The op table: what can be computed, one entry an op. Importing the package fills it."""

from infinitensor.ops.create import creation, index_grids
from infinitensor.ops.elementwise import (
    closeness,
    elementwise,
    packbits,
    two_outputs,
)
from infinitensor.ops.forms import gather, reduction
from infinitensor.ops.linalg import (
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
from infinitensor.ops.move import (
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
from infinitensor.ops.points import (
    bisect,
    centres,
    column_stats,
    distances,
    kd_order,
    lloyd_task,
    pairs,
    prim,
    seeds,
)
from infinitensor.ops.random import (
    counter_rng,
    distributions,
    rejection,
    sampling,
)
from infinitensor.ops.reduce import (
    argminmax_topk,
    counts,
    histogram,
    logsumexp,
    moments,
    nan,
    scan,
    sets,
    statistics,
    ufunc_reduce,
)
from infinitensor.ops.signal import (
    calculus,
    convolve,
    fft,
    long_fft,
    polynomial,
)
from infinitensor.ops.sorting import (
    lexsort_partition,
    quantile,
    rank_select,
    searchsorted,
    sort,
)
from infinitensor.ops.table import checks
from infinitensor.ops.table.registry import TABLE

__all__ = ["TABLE"]
