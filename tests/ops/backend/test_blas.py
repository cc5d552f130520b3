"""Products by the library beside torch, or NumPy's or SciPy's: from Python and from C."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.reliability import child

import infinitensor as it
from infinitensor import threads
from infinitensor.config import config
from infinitensor.events import lane, on
from infinitensor.ops.backend import blas
from infinitensor.ops.linalg.triangles import solve_one

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_library = pytest.mark.skipif(
    blas.find_library() is None, reason="no OpenBLAS, or no compiler here"
)


def strided(rng: np.random.Generator, rows: int, columns: int, dtype: str) -> Iterator[np.ndarray]:
    """Matrices of all strides there are: some the library takes, some it does not."""
    values = rng.standard_normal((rows, columns)).astype(dtype)
    if values.dtype.kind == "c":
        values += (1j * rng.standard_normal((rows, columns))).astype(dtype)
    yield values
    yield np.asfortranarray(values)
    yield np.pad(values, 2)[2:-2, 2:-2]
    yield np.pad(values.T, 3)[3:-3, 3:-3].T
    yield np.repeat(np.repeat(values, 2, 0), 3, 1)[::2, ::3]
    yield values[::-1].copy()[::-1]
    yield np.broadcast_to(values[:1], (rows, columns))


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(("rows", "k", "columns"), [(7, 5, 9), (1, 5, 9), (7, 5, 1), (7, 1, 9)])
def test_a_product_is_the_same_however_its_operands_are_stored(
    dtype: str, rows: int, k: int, columns: int
) -> None:
    rng = np.random.default_rng(0)
    for x in strided(rng, rows, k, dtype):
        for y in strided(rng, k, columns, dtype):
            for out in (
                np.full((rows, columns), np.nan, dtype),
                np.full((rows, 20), np.nan, dtype),
            ):
                out = out[:, :columns]
                assert blas.multiply(x, y, out)
                np.testing.assert_allclose(out, x @ y, rtol=1e-3, atol=1e-5)


@pytest.mark.sampled(10)
@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("rows", "k", "columns"),
    [
        (160, 161, 162),
        (1003, 40, 33),
        (17, 300, 515),
        (2, 800, 901),
        (1, 530, 1100),
        (1300, 257, 1),
        (1100, 65, 1100),
    ],
)
def test_a_product_cut_for_several_threads_has_the_bits_of_one(
    dtype: str, rows: int, k: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads._n_threads, "value", 3)
    rng = np.random.default_rng(1)
    for x in strided(rng, rows, k, dtype):
        for y in strided(rng, k, columns, dtype):
            cut, whole = (np.full((rows, columns + 3), np.nan, dtype)[:, :columns] for _ in "12")
            assert blas.multiply(x, y, cut)
            with monkeypatch.context() as alone:
                alone.setattr(lane, "is_worker", True)
                assert blas.multiply(x, y, whole)
            np.testing.assert_array_equal(cut, whole)
        np.testing.assert_allclose(cut, x @ y, rtol=1e-3, atol=1e-3)


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("n", "k"), [(3, 5), (97, 300), (130, 129), (515, 260), (515, 40), (300, 600)]
)
@pytest.mark.parametrize("n_stack", [1, 3, 70])
def test_a_matrix_times_itself_is_symmetric_and_cut_alike_by_any_threads(
    dtype: str, n: int, k: int, n_stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if n_stack * n * k > 1 << 19:
        n_stack = 2
    monkeypatch.setattr(threads._n_threads, "value", 4)
    rng = np.random.default_rng(n)
    values = rng.standard_normal((n_stack, n, k)).astype(dtype)
    if values.dtype.kind == "c":
        values += (1j * rng.standard_normal(values.shape)).astype(dtype)
    for x in (values, np.ascontiguousarray(values.swapaxes(1, 2)).swapaxes(1, 2)):
        found = []
        for is_worker in (False, True):
            monkeypatch.setattr(lane, "is_worker", is_worker)
            out = np.full((n_stack, n, n + 2), np.nan, dtype)
            assert blas.multiply(x, x.swapaxes(1, 2), out[:, :, :n])
            assert np.isnan(out[:, :, n:]).all()
            found.append(out[:, :, :n])
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[0].swapaxes(1, 2))
        np.testing.assert_allclose(found[0], x @ x.swapaxes(1, 2), rtol=1e-3, atol=1e-3)


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("k", [1, 2, 31, 32, 100, 1000])
def test_the_product_of_two_vectors_has_the_same_bits_whatever_their_strides(
    dtype: str, k: int
) -> None:
    rng = np.random.default_rng(k)
    x, y = next(strided(rng, 1, k, dtype)), next(strided(rng, k, 1, dtype))
    wanted = np.empty((1, 1), dtype)
    assert blas.multiply(x, y, wanted)
    np.testing.assert_allclose(wanted, x @ y, rtol=1e-3, atol=1e-4)
    padded_rows, padded_columns = np.pad(x.T, 3)[3:-3, 3:-3].T, np.pad(y, 2)[2:-2, 2:-2]
    apart = np.repeat(x, 3, 1)[:, ::3]
    for row in (x, np.asfortranarray(x), padded_rows, apart):
        for column in (y, np.asfortranarray(y), padded_columns, np.repeat(y, 2, 0)[::2]):
            out = np.full((1, 1), np.nan, dtype)
            assert blas.multiply(row, column, out)
            np.testing.assert_array_equal(out, wanted)


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_a_matrix_times_itself_transposed_is_symmetric_to_the_bit(dtype: str) -> None:
    for x in strided(np.random.default_rng(1), 70, 40, dtype):
        out = np.full((70, 70), np.nan, dtype)
        assert blas.multiply(x, x.T, out)
        np.testing.assert_allclose(out, x @ x.T, rtol=1e-3, atol=1e-4)
        assert (out == out.T).all()


HALVES = (np.dtype(np.float16), np.dtype(it.bfloat16))


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Whole numbers whose products floats add up exactly: what is made of them is rounded once."""
    return rng.integers(-30, 30, shape).astype(dtype)


def storages(values: np.ndarray) -> Iterator[np.ndarray]:
    """The same matrices in several ways; the last are one, as many times."""
    yield values
    yield values.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    yield np.repeat(np.repeat(values, 2, -2), 3, -1)[..., ::2, ::3]
    yield values[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
    if values.ndim > 2:
        yield np.broadcast_to(values[:1], values.shape)


@needs_library
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    ("stack", "rows", "k", "columns"),
    [
        ((), 7, 5, 9),
        ((), 1, 5, 9),
        ((), 7, 5, 1),
        ((), 7, 1, 9),
        ((), 1, 40, 1),
        ((), 300, 70, 110),
        ((), 2, 20_000, 3),
        ((4,), 30, 20, 50),
        ((1,), 3, 2, 4),
        ((200,), 5, 3, 1),
    ],
)
def test_halves_are_multiplied_as_floats_and_rounded_once_however_they_are_stored(
    dtype: Any, stack: tuple[int, ...], rows: int, k: int, columns: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(threads._n_threads, "value", 3)
    rng = np.random.default_rng(0)
    left, right = (whole_numbers(rng, (*stack, *s), dtype) for s in ((rows, k), (k, columns)))
    for x in storages(left):
        for y in storages(right):
            wanted = x.astype("f8") @ y.astype("f8")
            for out in (dtype, np.dtype("f4")):
                made = np.full((*stack, rows, columns + 2), np.nan, out)[..., :columns]
                assert blas.multiply(x, y, made)
                np.testing.assert_array_equal(made, wanted.astype(out))
            made = np.full((*stack, rows, columns), np.nan, "f4")
            assert blas.multiply(x.astype("f4"), y, made)
            np.testing.assert_array_equal(made, wanted)


@needs_library
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_half_is_cast_as_numpy_casts_it(dtype: Any) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)[:, None]
    one = np.ones((1, 1), dtype)
    wide, back = np.empty((1 << 16, 1), "f4"), np.empty((1 << 16, 1), dtype)
    with np.errstate(all="ignore"):
        assert blas.multiply(every, one, wide)
        np.testing.assert_array_equal(wide, every.astype("f4"))
        for factor in (1, 1 + 2**-9, 2.0**-11, 1000):
            scaled = every.astype("f4") * np.float32(factor)
            assert blas.multiply(scaled, one, back)
            wanted = scaled.astype(dtype).astype("f4")
            np.testing.assert_array_equal(back.astype("f4"), wanted)


@needs_library
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_products_of_halves_have_the_same_bits_at_once_planned_and_in_c(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    given = [rng.standard_normal(shape).astype(dtype) for shape in ((40, 30), (30, 50), (3, 50, 7))]

    def program() -> list[np.ndarray]:
        a, b, c = map(it.asarray, given)
        made = (a @ b, a[3] @ b, a @ b[:, 2], b.T[5] @ b[:, 4], (a @ b) @ c, it.dot(a, b))
        it.compute(*made)
        return [np.asarray(x.numpy()) for x in made]

    with it.init("cpu"):
        wanted = program()
    monkeypatch.setattr(config, "small_elements", 0)
    for tile_elements in (0, 400):
        monkeypatch.setattr(config, "tile_elements", tile_elements)
        with it.init("cpu"):
            for _ in range(3):
                for x, y in zip(program(), wanted, strict=True):
                    if not tile_elements:
                        np.testing.assert_array_equal(x, y)
                    np.testing.assert_allclose(x.astype("f8"), y.astype("f8"), 1e-2, 5e-2)


def test_what_it_is_not_for_is_left_to_others() -> None:
    whole = np.arange(12).reshape(3, 4)
    assert not blas.multiply(whole, whole.T, np.empty((3, 3), whole.dtype))
    x = np.ones((3, 4))
    assert not blas.multiply(x, x.T.astype("f4"), np.empty((3, 3)))
    assert not blas.multiply(x, x.T, np.empty((3, 6))[:, ::2])
    assert not blas.multiply(x[:0], x.T, np.empty((0, 3)))


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", *HALVES])
def test_tasks_in_c_have_the_bits_of_those_in_python(dtype: str) -> None:
    rng = np.random.default_rng(2)
    given = [rng.standard_normal((500, 500)).astype(dtype) for _ in range(2)]

    def program() -> tuple[Any, ...]:
        a, b = (it.asarray(x) for x in given)
        v = a[3]
        made = (a @ b + a, a.T @ b[:, :300], v @ a, (a[:, :400] @ b[:400]) @ v, a @ a.T)
        it.compute(*made)
        return tuple(x.numpy() for x in made)

    with it.init("cpu"):
        started: list[Any] = []
        with on("task_start", lambda **event: started.append(event["op"])):
            wanted = program()
        assert "matmul" in started
        for _ in range(12):
            it.stats(reset=True)
            found = program()
        assert it.stats()["tasks_in_c"] > 0
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", *HALVES])
def test_stacks_and_einsums_in_c_have_the_bits_of_those_in_python(dtype: Any) -> None:
    it.config.small_elements = 0  # or all are made at once
    rng = np.random.default_rng(6)
    shapes = ((9, 80, 70), (9, 70, 60), (70, 60), (9, 70))
    given = [rng.standard_normal(shape).astype(dtype) for shape in shapes]

    def program(xp: Any, s: Any, t: Any, m: Any, v: Any) -> tuple[Any, ...]:
        return (
            s @ t,
            s @ m,
            s[:, :1] @ m,
            s.reshape(1, 720, 70) @ t,
            s[:1] @ t,
            xp.matmul(s[0], t),
            xp.transpose(t, (0, 2, 1)) @ xp.transpose(s, (0, 2, 1)),
            xp.einsum("bij,bkj->bik", s, s[:, ::2]),
            xp.einsum("bj,bjk->bk", v, t),
            xp.einsum("bij,bj->bi", s, v),
            xp.einsum("ibj,bjk->bik", s[:, :9], s[:9, :70, :60]),
            xp.einsum("bij,jk->bik", s, m),
            xp.einsum("bij,bjk->bki", s, t),
        )

    def played() -> list[np.ndarray]:
        made = program(it, *map(it.asarray, given))
        it.compute(*made)
        return [x.numpy() for x in made]

    with it.init("cpu"):
        with on("task_start", lambda **event: None):
            wanted = played()
        for _ in range(12):
            it.stats(reset=True)
            found = played()
        assert it.stats()["tasks_in_c"] > 0
    kind = "c16" if dtype == "c8" else "f8"
    numpys = program(np, *(x.astype(kind) for x in given))
    rtol, atol = (2e-2, 0.6) if dtype in HALVES else (1e-3, 1e-3)
    for x, y, z in zip(found, wanted, numpys, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x.astype(kind), z, rtol, atol)


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_small_products_have_the_same_bits_while_others_keep_the_library_to_one_core(
    dtype: str,
) -> None:
    rng = np.random.default_rng(7)
    s, m, v = (rng.standard_normal(n).astype(dtype) for n in ((9, 1, 70), (70, 60), (1, 70)))

    def played() -> list[np.ndarray]:
        x, y, z = map(it.asarray, (s, m, v))
        return [made.numpy() for made in (x @ y, z @ y, y[:60].T @ z[:, :60].T)]

    ours = blas.find_library()
    with it.init("cpu"):
        alone = played()
        ours.enter()
        try:
            beside = played()
        finally:
            ours.leave()
    for x, y in zip(alone, beside, strict=True):
        np.testing.assert_array_equal(x, y)


@needs_library
def test_a_program_of_products_in_c_leaves_the_threads_of_torch_as_they_were() -> None:
    import torch

    a = np.random.default_rng(3).random((600, 600))
    before = torch.get_num_threads()
    with it.init("cpu"):
        for _ in range(4):
            x = it.asarray(a)
            np.testing.assert_allclose((x @ x + 1).numpy(), a @ a + 1)
    assert torch.get_num_threads() == before


WORKERS = """
import sys, threading
import numpy as np
from infinitensor.events import lane
from infinitensor.ops.backend import blas
from infinitensor.ops.linalg.triangles import solve_one

a = np.ones((64, 64))
ours = blas.find_library()
found = []

def threads(is_worker):
    lane.is_worker = is_worker
    out = np.empty((64, 64))
    assert blas.multiply(a, a, out) and (out == 64).all()
    assert solve_one(a + np.eye(64), a, out) and abs(out - 1 / 65).max() < 1e-12
    with blas.of_this_thread(ours):
        found.append(ours.cores())

for is_worker in (True, False):
    thread = threading.Thread(target=threads, args=(is_worker,))
    thread.start()
    thread.join()
assert blas.multiply(a, a, np.empty((64, 64)))
found.append(ours.cores())
print(*found, "torch" in sys.modules)
"""


@needs_library
@pytest.mark.parametrize("file", [path.name for path, _ in blas._files()])
def test_a_worker_keeps_to_one_core_without_torch_and_others_do_not(file: str) -> None:
    """With each library that is here: torch's counts threads otherwise than NumPy's and SciPy's."""
    pick = f"""
from infinitensor.ops.backend import blas
found = [one for one in blas._files() if one[0].name == {file!r}]
blas._files = lambda: iter(found)
"""
    done = subprocess.run(
        [sys.executable, "-c", pick + WORKERS],
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "2", "2", "False"]


@needs_library
def test_products_by_the_library_of_another_are_counted() -> None:
    library = blas.beside()
    assert library is not None
    x = np.random.default_rng(5).random((600, 600))  # no small product
    with it.init("cpu"):
        it.stats(reset=True)
        for _ in range(3):
            np.testing.assert_allclose((it.asarray(x) @ it.asarray(x[0])).numpy(), x @ x[0])
        assert (it.stats(reset=True)["borrowed_products"] >= 3) == library.is_borrowed
        assert it.stats()["borrowed_products"] == 0


@needs_library
def test_products_of_matrices_and_one_system_to_solve_import_no_torch() -> None:
    said = """
import sys
import numpy as np
import infinitensor as it

rng = np.random.default_rng(0)
a, b, c = (rng.random(shape) for shape in ((700, 400), (400, 900), (900, 700)))
with it.init("cpu"):
    x, y, z = map(it.asarray, (a, b, c))
    half, brain = x.astype("float16"), y.astype(it.bfloat16)
    it.compute(half @ half.T, brain @ brain.T, half @ brain, it.einsum("ij,kj->ki", half, half))
    for made, wanted in (
        (x @ y, a @ b),
        (it.linalg.multi_dot([x, y, z]), a @ b @ c),
        (it.einsum("ij,jk->ki", x, y), (a @ b).T),
        (it.dot(y, z), b @ c),
        (x.T @ (x @ y[:, 0]), a.T @ (a @ b[:, 0])),
        (it.linalg.solve(x[:400], y[:, :9]), np.linalg.solve(a[:400], b[:, :9])),
        ((x * 9).astype(int) @ (y * 9).astype(int), (a * 9).astype(int) @ (b * 9).astype(int)),
    ):
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-7)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_one_system_is_solved_as_torch_does_however_it_is_stored(dtype: str) -> None:
    import torch

    for a in strided(np.random.default_rng(2), 40, 40, dtype):
        a = a + 9 * np.eye(40, dtype=dtype)
        for b in strided(np.random.default_rng(3), 40, 5, dtype):
            out = np.full((40, 9), np.nan, dtype)[:, :5]
            assert solve_one(a[None], b, out)
            wanted = torch.linalg.solve(*(torch.from_numpy(v.copy()) for v in (a, b))).numpy()
            np.testing.assert_allclose(out, wanted, rtol=1e-3 if dtype in ("f4", "c8") else 1e-10)


@needs_library
def test_a_stack_of_systems_or_none_is_not_for_the_library() -> None:
    many = np.stack([np.eye(3)] * 4)
    assert not solve_one(many, np.ones((3, 2)), np.empty((4, 3, 2)))
    assert not solve_one(np.empty((0, 0)), np.empty((0, 2)), np.empty((0, 2)))
    it.config.compile = "never"
    try:
        assert not solve_one(many[0], np.ones((3, 2)), np.empty((3, 2)))
    finally:
        it.config.compile = "auto"


@needs_library
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_multiplied_where_there_is_no_memory_for_floats(dtype: str) -> None:
    found = child.run(
        f"""
        import resource
        from infinitensor.ops.backend import blas
        rng = np.random.default_rng(0)
        x = rng.integers(-4, 5, (2, 1 << 22, 2)).astype(it.{dtype})
        y = rng.integers(-4, 5, (2, 2, 3)).astype(it.{dtype})
        out = np.zeros((2, 1 << 22, 3), x.dtype)
        wanted = np.einsum("nij,njk->nik", x[:, ::4096].astype("f4"), y.astype("f4"))
        blas.multiply(x[:, :4], y, out[:, :4])
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), resource.RLIM_INFINITY))
        done = blas.multiply(x, y, out)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        reply(done=done, same=bool((out[:, ::4096].astype("f4") == wanted).all()))
        """
    )
    assert found == {"done": True, "same": True}


@needs_library
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("shape", [(128, 586, 17), (3, 40_000, 2), (40, 430, 300), (5, 0, 7)])
def test_small_products_of_larger_matrices_are_made_at_once(
    shape: tuple[int, int, int], dtype: str
) -> None:
    m, k, n = shape
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))
    with it.init("cpu"):
        x, y = it.asarray(a), it.asarray(b)
        it.stats(reset=True)
        made = x @ y
        assert it.stats()["ways"]["numpy"] == 1
        many = it.asarray(np.ones((300, 400), dtype)) @ it.asarray(np.ones((400, 300), dtype))
        long = it.asarray(np.ones((3, 90_000), dtype)) @ it.asarray(np.ones((90_000, 2), dtype))
        assert it.stats()["ways"]["numpy"] == 1  # one is not small, the other cut by plans
        np.testing.assert_array_equal(long.numpy(), np.full((3, 2), 90_000, dtype))
        np.testing.assert_array_equal(many.numpy(), np.full((300, 300), 400, dtype))
    np.testing.assert_allclose(made.numpy(), a @ b, 1e-4, 1e-3)
