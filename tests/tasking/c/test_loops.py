"""The loops of a fused group: what they compute is NumPy's, and how they are parted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.tasking.generated import ULPS

import infinitensor as it
from infinitensor import native
from infinitensor.ops.forms.fold_order import is_short
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.tasking.c.expressions import GroupStep, Input
from infinitensor.tasking.c.loops import MOST_LOOP_STEPS, header, source_of
from infinitensor.tasking.kernels.c_kernel import compiled_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(native.compiler() is None, reason="no C compiler here"),
]
DOUBLE = np.dtype(np.float64)


def program(np_: Any, x: Any, y: Any, z: Any) -> list[Any]:
    # sums of what is positive: a function's last places stay last places
    a = np_.where(x > 0.5, np_.exp(x) * (y * y) + z * z, np_.maximum(x, 0.3) - 2) / 3
    n = (np_.abs(x) * 10).astype(np.int64) * 3 - 1
    return [
        a,
        (np_.sqrt(np_.abs(x)) * 2 + 1).sum(1),
        ((x - x.mean(0)) / x.std(0)).max(),
        n & 7,
        ((x[::-1, ::-3] * 2 - 1) / y[::-1]).T,
        np_.logical_and(x > 0, n < 5) | (x == z),
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tile", [0, 7, 100])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_program_with_generated_code_gives_numpys_values(
    tile: int, kind: Any, always: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it.config, "tile_elements", tile)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(kind) for s in ((37, 53), (37, 1), (53,))]
    with it.init("cpu*2"):
        got = program(it, *map(it.asarray, given))
        it.compute(*got)
        for mine, wanted in zip(got, program(np, *given), strict=True):
            assert mine.dtype == wanted.dtype
            np.testing.assert_allclose(mine.numpy(), wanted, 2 * ULPS * float(np.finfo(kind).eps))
        # neither exp of 37 rows nor a where is a reason to fall back
        assert it.stats()["eager_fallbacks"] == 0


def chain(*words: str, dtype: Any = DOUBLE) -> list[GroupStep]:
    """One word after another on what the one before made; the last is stored."""
    return [
        GroupStep(
            Term(word, (Arg(0),)),
            (dtype,),
            (("step", k - 1) if k else ("in", 0),),
            dtype,
            0 if k == len(words) - 1 else -1,
        )
        for k, word in enumerate(words)
    ]


def loops_in(source: str) -> int:
    """Loops over a block in the function of a group."""
    return source[source.index("void run(") :].count("for (int64_t i = 0; i < m; ++i)")


def test_plain_steps_are_one_loop_and_functions_over_blocks_part_them() -> None:
    plain = source_of(chain("negative", "absolute", "square"), [Input(DOUBLE, False, False)], 1)
    assert loops_in(plain) == 1
    assert "vector.h" not in plain
    parted = source_of(chain("negative", "exp", "square"), [Input(DOUBLE, False, False)], 1)
    assert loops_in(parted) == 2
    assert "block_exp_f64(" in parted


def test_many_steps_are_parted_into_loops_of_few() -> None:
    few = source_of(chain(*["negative"] * MOST_LOOP_STEPS), [Input(DOUBLE, False, False)], 1)
    many = source_of(chain(*["negative"] * 100), [Input(DOUBLE, False, False)], 1)
    assert loops_in(few) == 1
    assert loops_in(many) == 5
    assert "prefer-vector-width=512" in many
    assert "prefer-vector-width=512" not in few


@pytest.mark.parametrize("n", [3, 1025])
def test_loops_of_few_steps_give_what_one_of_all_gives(n: int) -> None:
    words = ["square", "negative", "absolute", "sqrt", "exp", "negative", "tanh"] * 15
    x = np.random.default_rng(n).uniform(0.2, 3, n)
    out, wanted = np.empty(n), x
    run = compiled_kernel(tuple(chain(*words)), (Input(DOUBLE, False, False),), 1)
    run([x], [out], (n,))
    for word in words:
        wanted = getattr(np, word)(wanted)
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


def test_two_values_that_change_in_turns_have_numpys_bits(always: None) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(3000).astype(np.float32) for _ in range(2))
    with it.init("cpu"):
        x, y = it.asarray(a), it.asarray(b)
        total = 0 * x
        for _ in range(40):
            y = y * 0.9 + x * 0.1
            x = x - y * 0.1
            total += x
        it.compute(x, y, total)
        got = [x.numpy(), y.numpy(), total.numpy()]
    wanted = 0 * a
    for _ in range(40):
        b = b * 0.9 + a * 0.1
        a = a - b * 0.1
        wanted += a
    np.testing.assert_array_equal(got[0], a)
    np.testing.assert_array_equal(got[1], b)
    np.testing.assert_array_equal(got[2], wanted)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.T,
    "rows backwards": lambda x: x[::-1].T,
    "columns backwards": lambda x: x[:, ::-1].T,
    "both backwards": lambda x: x[::-1, ::-1].T,
    "every other": lambda x: x[1::2, ::2].T,
    "backwards": lambda x: x[:, ::-1],
    "every other column": lambda x: x[:, 1::2],
    "every third from the end": lambda x: x[:, ::-3],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["i1", "u2", "f4", "i8", "c8", "c16"])
def test_rows_and_columns_of_every_width_are_transposed(view: str, dtype: str) -> None:
    """Blocks of all item sizes, their last ones, and what is too narrow for one."""
    kind, rng = np.dtype(dtype), np.random.default_rng(0)
    narrow = (1, 2, 3, 5, 8, 9, 15, 16, 17, 33, 64)
    shapes = [shape for n in narrow for shape in ((n, 1500), (1500, n))]
    step = GroupStep(Term("add", (Arg(0), Arg(1))), (kind, kind), (("in", 0), ("in", 1)), kind, 0)
    given = (Input(kind, False, False), Input(kind, False, False))
    for shape in [*shapes, (70, 90), (130, 300)]:
        x = VIEWS[view](rng.integers(0, 100, shape).astype(kind))
        y, out = rng.integers(0, 27, x.shape).astype(kind), np.empty(x.shape, kind)
        for short in {is_short(x.shape, ()), True}:
            compiled = compiled_kernel((step,), given, 1, short=short)
            out[...] = 0
            compiled([x, y], [out], x.shape)
            np.testing.assert_array_equal(out, x + y)


def test_what_nobody_reads_is_not_computed() -> None:
    unread = GroupStep(Term("exp", (Arg(0),)), (DOUBLE,), (("in", 0),), DOUBLE, -1)
    steps = [*chain("negative"), unread]
    source = source_of(steps, [Input(DOUBLE, False, False)], 1)
    assert "block_exp_f64(" not in source[source.index("void run(") :]


def test_scalars_are_read_once_from_eight_or_sixteen_bytes() -> None:
    kinds = [np.dtype(kind) for kind in ("f4", "c16", "i2")]
    steps = [
        GroupStep(Term("negative", (Arg(0),)), (kind,), (("in", k),), kind, k)
        for k, kind in enumerate(kinds)
    ]
    source = source_of(steps, [Input(kind, True, False) for kind in kinds], 3)
    for k, (wide, at) in enumerate((("double", 0), ("complex128", 8), ("int64_t", 24))):
        assert f"x{k} = (" in source
        assert f"*(const {wide} *)(scalars + {at});" in source


def test_headers_are_those_that_are_needed() -> None:
    real = source_of(chain("negative"), [Input(DOUBLE, False, False)], 1)
    both = np.dtype(complex)
    complex_too = source_of(chain("negative", dtype=both), [Input(both, False, False)], 1)
    assert header("complex.h") not in real
    assert header("complex.h") in complex_too
    assert header("lines.h") in real
    assert header("fold_loops.h") not in real


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 5000])
def test_blocks_that_do_not_divide_a_row_leave_nothing_out(n: int) -> None:
    x = np.random.default_rng(n).uniform(-3, 3, n)
    out = np.empty(n)
    run = compiled_kernel(
        tuple(chain("negative", "exp", "square")), (Input(DOUBLE, False, False),), 1
    )
    run([x], [out], (n,))
    np.testing.assert_allclose(out, np.exp(-x) ** 2, rtol=1e-14)
