"""What a CPU kernel allocates for a tile of about 1e5 elements is within what its op declares.

NumPy's arrays are traced by tracemalloc, torch's by its profiler; work space that LAPACK, MKL and
oneDNN take for themselves is seen by neither. The moving chapters (gather, index, order, scan) are
measured in `tests/ops/test_scratch.py`; the last test says that nothing is left out.
"""

from __future__ import annotations

import inspect
import tracemalloc
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pytest
from tests.memory_promise.clustered import clustered
from tests.ops import test_scratch as moving
from tests.ops.rows import RANDOM
from tests.ops.table_xp import bind, spec_of

from infinitensor.devices import find_tools
from infinitensor.dtypes import to_torch
from infinitensor.ir.mesh import Target
from infinitensor.ir.op import At, Spec
from infinitensor.ir.region import whole_box
from infinitensor.ops import TABLE
from infinitensor.ops.linalg.csr_matmul import Rows
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial, scratch_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.op import Call, Op

SLACK_BYTES = 64 << 10  # Python's own objects
BUFFERED_ELEMENTS = 8192  # NumPy's iterator copies operands of other dtypes or orders in pieces
SHAPE = (400, 250)
REGION_ONLY = {
    "_write": "it has no kernel: the region of the node is copied by tasking/groups/write_group.py"
}
"""Ops that have nothing to measure."""

# Operand dtypes of elementwise ops: those that run without a cast, and those that need one.
KINDS = ("float64", "float32", "float16", "int64", "uint8", "bool", "complex128")
MIXED = (
    ("float32", "float64"),
    ("int8", "float32"),
    ("uint64", "int64"),
    ("float32", "complex128"),
)


# --- measuring --------------------------------------------------------------------------------


def numpy_peak(run: Callable[[], Any]) -> int:
    """The most bytes traced at once while it runs; caches and imports are not scratch."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def torch_peak(run: Callable[[], Any]) -> int:
    """The most bytes that torch's CPU allocator has handed out at once while it runs."""
    from torch.profiler import ProfilerActivity, profile

    with catch_warnings():
        simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
            run()
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = np.cumsum([0, *(e.nbytes() for e in sorted(events, key=lambda e: e.start_ns()))])
    return int(held.max())


def assert_within(
    op: Op, call: Call, ins: list[Any], measure: Any, outs: list[Any] | None = None
) -> None:
    """Both measures together are at most what the op declares for these tiles."""
    run, made = kernel(op, call, ins, outs)
    with np.errstate(all="ignore"), catch_warnings():
        simplefilter("ignore")
        measured = sum(peak(run) for peak in measure)
    tiles = tuple(spec_of(x) for x in ins)
    here = Target("cpu", find_tools())
    declared = scratch_bytes(op, call, tiles, tuple(spec_of(x) for x in made), here)
    allowed = declared + SLACK_BYTES + buffered_bytes(op, call, ins, made)
    assert measured <= allowed, f"{measured} bytes measured, {declared} declared"


def buffered_bytes(op: Op, call: Call, ins: list[Any], outs: list[Any]) -> int:
    """What NumPy's iterator holds of the operands at once: a constant, whatever the tile."""
    if op.kind not in ("elementwise", "reduction"):
        return 0
    kinds = [*call.loop, *(np.asarray(x).dtype for x in (*ins, *outs))]
    widest = max(kind.itemsize for kind in kinds)
    return (len(ins) + len(outs)) * widest * BUFFERED_ELEMENTS


def kernel(
    op: Op, call: Call, ins: list[Any], outs: list[Any] | None
) -> tuple[Callable[[], None], list[Any]]:
    """The lowered kernel of one tile, bound to its operands and outputs."""
    made = outs or [np.zeros(spec.shape, spec.dtype) for spec in call.outs]
    at = At(tuple(whole_box(o.shape) for o in made), tuple(whole_box(np.shape(x)) for x in ins))
    if op.kind == "reduction":
        partial, finish = lower_partial(op, call, "cpu"), lower_finish(op, call, "cpu")
        return lambda: finish(partial(ins, at), made), made
    run = lower(op, call, "cpu")
    return lambda: run(ins, made, at), made


def values(dtype: str, shape: tuple[int, ...] = SHAPE) -> Any:
    """Positive numbers, so that every op is defined."""
    numbers = np.random.default_rng(0).integers(1, 6, shape)
    return numbers.astype(dtype)


# --- elementwise ------------------------------------------------------------------------------

ELEMENTWISE = sorted(n for n, op in TABLE.items() if op.kind == "elementwise" and n != "_cast")


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_kernels_allocate_what_they_declare(name: str) -> None:
    op = TABLE[name]
    n = len(op.arrays)
    measured = 0
    pairs = [(kind,) * n for kind in KINDS] + (
        [(a, *(b,) * (n - 1)) for a, b in MIXED] if n > 1 else []
    )
    for kinds in pairs:
        ins = [values(kind) for kind in kinds]
        try:
            call, _ = bind(op, ins, {})
        except TypeError:
            continue  # no loop for these dtypes
        assert_within(op, call, ins, (numpy_peak,))
        assert_within(
            op, call, [x.T for x in ins], (numpy_peak,), [np.zeros(SHAPE[::-1], call.outs[0].dtype)]
        )
        measured += 1
    assert measured


@pytest.mark.parametrize("source", KINDS)
def test_a_cast_allocates_nothing(source: str) -> None:
    op = TABLE["_cast"]
    for target in KINDS:
        call, ins = bind(op, (values(source), target), {})
        assert_within(op, call, ins, (numpy_peak,))


# --- reductions -------------------------------------------------------------------------------

REDUCTIONS = sorted(
    name
    for name, op in TABLE.items()
    if op.kind == "reduction" and "axis" in inspect.signature(op.rule).parameters
)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_allocate_what_they_declare(name: str, axis: int | None) -> None:
    op = TABLE[name]
    for kind in KINDS:
        try:
            call, ins = bind(op, (values(kind),), {"axis": axis})
        except TypeError:
            assert name == "logsumexp" or name.startswith("_reduce_")
            continue
        assert_within(op, call, ins, (numpy_peak,))
        call, ins = bind(op, (values(kind, SHAPE[::-1]).T,), {"axis": axis})
        assert_within(op, call, ins, (numpy_peak,))


# --- everything else --------------------------------------------------------------------------


GENERAL: tuple[Any, ...] = (("eig", ()), ("eigvals", ()))


def large(rng: np.random.Generator) -> dict[str, list[Any]]:
    """Arguments of tiles of about 1e5 elements."""
    x = rng.standard_normal(SHAPE)
    square = rng.standard_normal((250, 250)) + 250 * np.eye(250)
    tall = [rng.standard_normal((m, (1 << 14) // m)).astype(d) for m in (300, 4096) for d in "fD"]
    batch = rng.standard_normal((10, 100, 100)) + 100 * np.eye(100)
    numbers = rng.standard_normal((1 << 17) - 1)
    y = x + 1j * x[::-1]
    columns = rng.integers(0, 250, numbers.size)
    starts = np.sort(rng.integers(0, numbers.size, 399))
    rows = Rows(np.concatenate([[0], starts, [numbers.size]]), 250)
    made: dict[str, list[Any]] = {
        "_narrowed": [(columns, np.dtype("u1")), (columns.astype("u1") % 99, np.dtype("i1"))],
        "_bits": [(x, np.dtype("u1")), (columns.astype("u1")[:-7], np.dtype("f8")), (y, x.dtype)],
        "_qr_raw": [(x,), (batch,)],
        "zeros": [(SHAPE,), (SHAPE, np.int8)],
        "ones": [(SHAPE,), (SHAPE, np.complex64)],
        "empty": [(SHAPE,)],
        "_csr_matmul": [
            (numbers, columns, numbers[:250], rows),
            (numbers.astype("f4"), columns, x[:50].T.astype("f4"), rows),
            (numbers.astype("c16"), columns, numbers[:250], rows),
            (columns.astype("i4"), columns, columns[:250], rows),
        ],
        "_csr_dense": [(numbers, columns, rows)],
        "_full": [(2.5, SHAPE, np.dtype(np.float32))],
        "_arange": [(np.float32(0.1), np.float32(0.4), 100_000, np.dtype(np.float32))],
        "_linspace": [
            (0.0, 0.25, 2.0, 2.0, 100_001, 100_000, True, np.dtype(float), np.dtype(k))
            for k in "fd"
        ],
        "eye": [(400, 250), (400, 250, -3, np.int8)],
        "tril": [(x, -3), (x.T, 4), (x.astype(np.int8),)],
        "triu": [(x, -3), (x.T, 4), (x.astype(np.int8),)],
        "round": [(x, 2), (x.T, 0), (x.astype(np.float32), -1), (values("int64"), -1), (y, 1)],
        "_topk_largest": [(x, 10), (x.astype(np.float32), 250), (values("uint8"), 3)],
        "_ensured": [(x, x < 9, "ValueError", ""), (x, np.ones(1, bool), "ValueError", "")],
        "_sort_line": [(x.reshape(-1), 2), (values("int64").reshape(-1), 3)],
        "_count": [(values("int64").reshape(-1), 9), (values("int64").reshape(-1), 100_000)],
        "_count_and_ends": [(values("int64").reshape(-1), 9)],
        "_rank_counts": [
            (x, np.zeros((len(x), 2, 2), np.int64), 51, 13),
            (x.astype(np.float16), np.zeros((len(x), 1, 2), np.int64), 0, 8),
        ],
        "_middle": [
            (numbers[: 3 * 40_000].reshape(-1, 3),),
            (numbers[:-1].reshape(-1, 2),),
            (numbers[: 1 << 16].reshape(-1, 2).astype("f2"),),
        ],
        "_rank_values": [(np.zeros((len(x), 2, 2), np.int64), np.dtype(np.float64))],
        "_count_weighted": [(values("int64").reshape(-1), x.reshape(-1), 9)],
        "_weigh_and_ends": [(values("int64").reshape(-1), x.reshape(-1), 9)],
        "_count_bins": [(numbers, np.linspace(-3, 3, 51)), (columns, np.linspace(0.0, 250.0, 9))],
        "_interp": [
            (x, np.linspace(-3, 3, 99), numbers[:99], None, None),
            (x.T, np.linspace(-3, 3, 5000), numbers[:5000], -1.0, 2.0),
        ],
        "_mask_counts": [(x > 0, 7), (numbers > 1, 4096)],
        "_packed": [(numbers, numbers > 1), (x, x > 0), (x + 1j, x > 9)],
        "_packed_places": [(numbers > 1,)],
        "_differs_from_before": [(np.sort(numbers), True), (np.sort(numbers), False)],
        "_smear": [
            (numbers, numbers[:50]),
            (numbers[:999], numbers[:998]),
            (values("int8").reshape(-1), values("uint8")[0]),
        ],
        "i0": [(x,), (values("int64"),), (x.astype(np.float16),), (9 * x.T,)],
        "matmul": [
            (x, x.T),
            (x.astype("f4"), x[0].astype("f4")),
            (values("int64"), values("int16").T),
        ],
        "_einsum": [(x, x, "nd", "kd", "kn"), (values("int64"), values("int64"), "ij", "ij", "j")],
        "_fft_axis": [
            (x, "fft", 0, 400, "ortho"),
            (y, "irfft", 1, 300, "forward"),
            (x.astype("f4"), "rfft", 1, 251, "ortho"),
        ],
        "_fft_whole": [
            (numbers, "fft", 0, len(numbers), "backward"),
            (numbers[:-1], "rfft", 0, 1 << 16, "ortho"),
        ],
        "_qr_batch": [(x, "reduced"), (x.T, "reduced"), (batch.astype("f4"), "r"), (x, "complete")],
        "_qr_reflectors": [(x,), (batch.astype("f4"),), (x.astype("c8"),), (x[:, :17],)],
        "_qr_reflected": [
            (a, a[..., :50, :], a[..., :50, :] + 1)
            for a in (batch[..., :50], x[:, :50], x[:, :50].astype("f4"))
        ],
        "_trsm_block": [(square, x.T), (square.T, x.T.astype("f4")), (square, x.T * 1j)],
        "_cholesky_block": [(square @ square.T,), ((square @ square.T).astype("f4"),)],
        "_solve_batch": [
            (batch, batch[:, :, :7]),
            (batch.astype("f4"), batch[0, :, :2].astype("f4")),
        ],
        "_solve_whole": [(square, x.T), (square.astype("c8"), x.T)],
        "_inv_batch": [(batch,), (batch.astype("i4"),)],
        "_inv_whole": [(square,), (square.astype("f4").T,)],
        "_expm_batch": [(batch / 100,), (batch.astype("f4") / 100,)],
        "_expm_whole": [(square / 250,)],
        "_slogdet_batch": [(batch,)],
        "_slogdet_whole": [(square,)],
        "_svd_batch": [(batch, True), (batch[:, :30].astype("f4"), False)],
        "_svd_whole": [(x, False), (x.T, True), (square * 1j, True), *((a, False) for a in tall)],
        "_svdvals_batch": [(batch,)],
        "_svdvals_whole": [(x,), (square * 1j,), *((a,) for a in tall)],
        **{
            f"_{word}_{part}": [(a, *more), (a.astype("f4"), *more), (a * 1j, *more)]
            for part, a in (("batch", batch), ("whole", square))
            for word, more in (("eigh", (True,)), ("eigvalsh", (False,)), *GENERAL)
        },
        "_det_batch": [(batch,), (batch.astype("i4"),)],
        "_det_whole": [(square,), (square.astype("f4").T,)],
        "modf": [(x,), (x.astype("f4").T,), (values("int64"),)],
        "frexp": [(x,), (x.astype("f4").T,), (values("int64"),)],
        "_fold": [(x, 0, "subtract"), (x.T, 0, "divide"), (values("int64"), 1, "lcm")],
        "_random_bits": [(np.int64(3), SHAPE)],
        "_random_uniform": [
            (np.int64(3), 0.0, 1.0, SHAPE, kind) for kind in (np.float64, np.float32)
        ],
        "_random_normal": [
            (np.int64(3), 0.0, 1.0, SHAPE, kind) for kind in (np.float64, np.float32)
        ],
        "_random_open": [(np.int64(3), SHAPE)],
        "_random_gamma": [(np.int64(3), 0.5, SHAPE), (np.int64(3), abs(x) + 1, SHAPE, True)],
        "_random_poisson": [(np.int64(3), abs(x) * 9, SHAPE), (np.int64(3), 40.0, SHAPE)],
        "_random_binomial": [(np.int64(3), 40.0, values("int64") / 6, SHAPE)],
        "_random_hypergeometric": [(np.int64(3), 90.0, values("int64"), 40.0, SHAPE)],
        "_random_zipf": [(np.int64(3), abs(x) + 1.5, SHAPE)],
        "_random_vonmises": [(np.int64(3), abs(x), SHAPE)],
        "_random_integers": [
            (np.int64(3), np.int64(-4), np.uint64(9), SHAPE, kind) for kind in (np.int64, np.uint8)
        ],
    }  # fmt: skip
    made["around"], made["_topk_smallest"] = made["round"], made["_topk_largest"]
    return made


CASES = [
    pytest.param(name, k, id=f"{name}-{k}")
    for name, cases in large(np.random.default_rng(0)).items()
    for k in range(len(cases))
]


@pytest.mark.parametrize(("name", "k"), CASES)
def test_kernels_allocate_what_they_declare(name: str, k: int) -> None:
    op = TABLE[name]
    call, ins = bind(op, large(np.random.default_rng(0))[name][k], {})
    assert_within(op, call, ins, (numpy_peak, torch_peak))


CLUSTERED = [
    pytest.param(name, k, id=f"{name}-{k}")
    for name, cases in clustered(np.random.default_rng(0)).items()
    for k in range(len(cases))
]


@pytest.mark.parametrize(("name", "k"), CLUSTERED)
def test_kernels_of_clustering_allocate_what_they_declare(name: str, k: int) -> None:
    op = TABLE[name]
    call, ins = bind(op, *clustered(np.random.default_rng(0))[name][k])
    assert_within(op, call, ins, (numpy_peak, torch_peak))


def test_every_kernel_is_measured() -> None:
    kernels = {name for name, op in TABLE.items() if op.kind != "program"}
    measured = {*ELEMENTWISE, "_cast", *REDUCTIONS, *large(np.random.default_rng(0))}
    measured |= set(moving._large(np.random.default_rng(0)))
    measured |= set(clustered(np.random.default_rng(0)))
    assert kernels - measured - set(REGION_ONLY) == set()
    assert set(RANDOM) <= set(TABLE)
    assert isinstance(Spec((), np.dtype(float)).n_bytes, int)


# --- on a GPU ---------------------------------------------------------------------------------

GPU_SLACK_BYTES = 64 << 10  # the allocator rounds each block up to 512 bytes


def cuda_peak(run: Callable[[], Any]) -> int:
    """The most bytes that torch's CUDA allocator has handed out at once while it runs."""
    import torch

    run()  # libraries take their own work space at the first call and keep it
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def on_gpu(op: Op, value: Any) -> Any:
    import torch

    if value is None or (np.ndim(value) == 0 and op.kind in ("creation", "elementwise")):
        return value
    return torch.from_numpy(np.array(value)).to("cuda")


def over_on_gpu(op: Op, args: Any, kwargs: dict[str, Any]) -> str:
    """How the torch form of a kernel is over what it declares; nothing where it is within."""
    import torch

    call, tensors = bind(op, args, kwargs)
    boxes: Any = tuple(whole_box(np.shape(t)) for t in tensors)
    if op.need is not None:
        specs = tuple(Spec(np.shape(t), np.asarray(t).dtype) for t in tensors)
        boxes = op.need(whole_box(call.outs[0].shape), specs, **dict(call.params))
    parts = [
        None if box is None else np.asarray(t)[tuple(slice(*span) for span in box)]
        for t, box in zip(tensors, boxes, strict=True)
    ]
    tiles = tuple(
        Spec(() if p is None else p.shape, np.asarray(t).dtype)
        for p, t in zip(parts, tensors, strict=True)
    )
    ins = [on_gpu(op, p) for p in parts]
    outs = [torch.zeros(s.shape, dtype=to_torch(s.dtype), device="cuda") for s in call.outs]
    at = At(tuple(whole_box(spec.shape) for spec in call.outs), boxes)
    if op.kind == "reduction":
        partial, finish = lower_partial(op, call, "cuda"), lower_finish(op, call, "cuda")
        measured = cuda_peak(lambda: finish(partial(ins, at), outs))
    else:
        kernel = lower(op, call, "cuda")
        used = ins[1:] if op.kind == "update" else ins
        measured = cuda_peak(lambda: kernel(used, outs, at))
    declared = scratch_bytes(op, call, tiles, call.outs, Target("cuda", find_tools()))
    if measured <= declared + GPU_SLACK_BYTES:
        return ""
    return f"{described(args)}: {measured} bytes measured, {declared} declared"


def described(args: Any) -> str:
    return ", ".join(
        f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else str(a)[:40] for a in args
    )


def gpu_cases(name: str) -> list[tuple[Any, dict[str, Any]]]:
    """Arguments of tiles of about 1e5 elements, for every op."""
    op = TABLE[name]
    rng = np.random.default_rng(0)
    if name == "_cast":
        return [((values(a), b), {}) for a in KINDS for b in KINDS]
    if op.kind == "elementwise":
        n = len(op.arrays)
        kinds = [(kind,) * n for kind in KINDS]
        kinds += [(a, *(b,) * (n - 1)) for a, b in MIXED] if n > 1 else []
        return [(tuple(values(kind) for kind in some), {}) for some in kinds]
    if name in REDUCTIONS:
        return [((values(kind),), {"axis": axis}) for kind in KINDS for axis in (0, 1, None)]
    if name in clustered(rng):
        return clustered(rng)[name]
    given = large(rng).get(name) or moving._large(rng)[name]
    if name == "_scatter":
        given[2] = (given[2][0], [given[2][1][0][:300]], *given[2][2:])
    return [(args, {}) for args in given]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name",
    sorted(n for n, op in TABLE.items() if op.kind != "program" and n not in REGION_ONLY),
)
def test_on_a_gpu_kernels_allocate_what_they_declare(name: str) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    found = []
    for args, kwargs in gpu_cases(name):
        try:
            bind(TABLE[name], args, kwargs)
        except TypeError:
            continue  # no loop for these dtypes
        found.append(over_on_gpu(TABLE[name], args, kwargs))
    assert found
    assert not any(found), "\n".join(filter(None, found))
