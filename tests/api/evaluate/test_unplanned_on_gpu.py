"""On a GPU programs run call by call the first time they come, with the bits of their plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.audit import Audit
from tests.fake_gpu import fake_gpu

import infinitensor as it
from infinitensor.events import on
from infinitensor.jit import Launch
from infinitensor.partition import canonical_layout
from infinitensor.tasking.triton.triton_group import Generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("torch")
pytestmark = pytest.mark.unaudited  # whoever looks at runs gets runs


@pytest.fixture(autouse=True)
def _with_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plans are made as if there were Triton; steps stand for what would be compiled."""

    def by_steps(self: Generated, ins: list[Any], outs: list[Any], i: int) -> None:
        generated.append(type(self.fast).__name__)
        self._eager(ins, outs, i)

    monkeypatch.setattr(Generated, "__call__", by_steps)
    monkeypatch.setattr(Launch, "ask", lambda *given: False)
    generated.clear()
    with (
        fake_gpu(plans_triton=True),
        it.init("cuda:0", memory="1GiB"),
        on("evaluated", Audit().evaluated),
    ):
        yield


generated: list[str] = []
"""What was to be generated code."""


def on_device(*arrays: np.ndarray) -> list[it.Tensor]:
    """Tensors in the memory of the stand-in GPU, whatever their size."""
    tensors = [it.asarray(array) for array in arrays]
    for tensor in tensors:
        version: Any = tensor._version
        if version.table is None:
            engine = version.session.engine
            layout = canonical_layout(version.shape, engine.mesh, 0)
            version.session.keep(version, engine.store(version.host, layout))
    return tensors


def ways(call: Callable[[], Any]) -> tuple[dict[str, int], list[np.ndarray]]:
    """How a program was evaluated, and its results."""
    before = it.stats()["ways"]
    made = call()
    made = list(made) if isinstance(made, tuple) else [made]
    it.compute(*made)
    found = {
        name: n - before[name]
        for name, n in it.stats()["ways"].items()
        if n > before[name] and not name.startswith("recorded")
    }
    return found, [tensor.numpy() for tensor in made]


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)


A, B = values(300, 40), values(40, 300)[:, ::-1].copy()
INDEX = np.random.default_rng(1).integers(-300, 300, 1000)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "steps": (lambda a: it.exp(a) * 2 + 1, (A,)),
    "a function whose bits Triton has not": (lambda a: it.hypot(a, a[::-1]), (A,)),
    "a scalar array": (lambda a: a + 1, (np.full((), 3, np.float32),)),
    "nothing": (lambda a: a * 2 + 1, (A[:0],)),
    "halves": (lambda a: (it.tanh(a), a.sum(axis=1)), (A.astype(np.float16),)),
    "integers": (lambda a: (a * 31 + 7) % 100 // 3, (A.astype(np.int64),)),
    "complex numbers": (lambda a: it.exp(a) * a, (A.astype(np.complex64),)),
    "views": (lambda a: it.flip(a.T, 0) + it.broadcast_to(a[0, 0], (40, 300)), (A,)),
    "sums and moments": (lambda a: (a.sum(), a.std(axis=0), it.argmax(a, axis=1)), (A,)),
    "softmax": (lambda a: it.exp(a - a.max(1, keepdims=True)) / it.exp(a).sum(1)[:, None], (A,)),
    "products": (lambda a, b: (a @ b, it.einsum("ij,ji->i", a, b)), (A, B)),
    "sorting": (lambda a: (it.sort(a, axis=0), it.argsort(a, axis=1)), (A,)),
    "running sums": (lambda a: it.cumsum(a, axis=1), (A.astype(np.int64),)),
    "reading": (lambda a, i: (a[i] * 2, it.take(a, i[:7], axis=0)), (A, INDEX)),
    "joining": (lambda a: it.concatenate([a, a * 2], axis=1), (A,)),
    "truth": (lambda a: it.where((a > 0) & it.isfinite(a), a, -a), (A,)),
    "counts": (lambda i: it.bincount(i, minlength=700), (INDEX + 300,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_same_bits_without_a_plan_with_one_and_repeated(name: str) -> None:
    run, arrays = PROGRAMS[name]
    given = on_device(*arrays)
    first, found = ways(lambda: run(*given))
    assert set(first) == {"unplanned"}
    assert not generated
    for way in ("planned", "few_kernels"):
        again, same = ways(lambda: run(*given))
        assert again == {way: 1}
        for ours, theirs in zip(found, same, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    assert not it.stats()["kernels_compiling"]


def test_writes_go_to_a_copy_so_that_what_fails_can_be_planned() -> None:
    (x,) = on_device(A)
    x[::2] = x[1::2] * 2
    wanted = A.copy()
    wanted[::2] = A[1::2] * 2
    first, _ = ways(lambda: x)
    assert set(first) == {"unplanned"}
    np.testing.assert_array_equal(x.numpy(), wanted)
    it.add.at(x, (it.asarray(np.array([3, 3])),), 1.0)
    np.add.at(wanted, [3, 3], 1.0)
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_a_loop_of_steps_is_unplanned_however_much_it_is() -> None:
    a, b = on_device(values(100_000), values(100_000))

    def loop() -> it.Tensor:
        c = a
        for _ in range(30):
            c = c * 0.99 + b * 0.01
        return c

    assert ways(loop)[0] == {"unplanned": 90}
    wanted = values(100_000)
    for _ in range(30):
        wanted = wanted * np.float32(0.99) + values(100_000) * np.float32(0.01)
    np.testing.assert_array_equal(loop().numpy(), wanted)


def test_an_error_is_that_of_a_plan() -> None:
    (x,) = on_device(A)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds"):
            it.compute(it.take(x, it.asarray(np.full(5000, 5000)), axis=0))
    stats = it.stats()
    assert stats["ways"]["unplanned"] == 0
    assert stats["unplanned_failures"] >= 1
    np.testing.assert_array_equal(x.numpy(), A)


MUCH = values(1 << 20)


ROUNDED: dict[str, Callable[[it.Tensor], it.Tensor]] = {
    "sum": lambda x: it.exp(x).sum(),
    "function": lambda x: it.hypot(x, 1) + x,
    "rows": lambda x: it.exp(x.reshape(1024, 1024)).sum(1, keepdims=True) * x.reshape(1024, 1024),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_generated_code_rounds_otherwise_is_planned(name: str) -> None:
    (x,) = on_device(MUCH)
    assert "planned" in ways(lambda: ROUNDED[name](x))[0]
    assert generated


def test_products_that_a_plan_makes_another_way_are_planned() -> None:
    (x,) = on_device(A)
    assert "planned" in ways(lambda: (x.T * 2) @ x)[0]
    assert "unplanned" in ways(lambda: (x * 2) @ x.T)[0]


def test_many_sums_are_little_work_if_they_are_not_of_each_other() -> None:
    x, w = on_device(values(64, 64, 3), values(5, 5, 3))
    out = it.zeros((60, 60))

    def convolved() -> it.Tensor:
        for i in range(12):
            for j in range(12):
                out[i, j] = it.sum(x[i : i + 5, j : j + 5] * w)
        return out

    assert set(ways(convolved)[0]) == {"unplanned"}
    wanted = sum(values(64, 64, 3)[3:8, 4:9].ravel() * values(5, 5, 3).ravel())
    assert abs(float(out[3, 4]) - wanted) < 1e-3


def test_what_is_compiled_by_hand_or_watched_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    (x,) = on_device(A)
    with on("task_start", lambda **what: None):
        assert "planned" in ways(lambda: x * 3)[0]
    monkeypatch.setattr(it.config, "compile", "never")
    assert "planned" in ways(lambda: x + 4)[0]
    monkeypatch.setattr(it.config, "compile", "auto")
    monkeypatch.setattr(it.config, "small_elements", 0)
    assert "planned" in ways(lambda: x - 5)[0]


def test_what_may_not_fit_beside_scratch_is_planned() -> None:
    (x,) = on_device(values(40 << 20))
    assert "planned" in ways(lambda: -x)[0]


def test_a_function_of_several_shapes_is_planned_for_those_that_are_repeated() -> None:
    (x,) = on_device(A)

    def seen(k: int) -> set[str]:
        return {*ways(lambda: x[k:] * 2 + x[:-k])[0]}

    assert [seen(k) for k in (1, 2, 3)] == [{"unplanned"}] * 3
    assert [seen(k) for k in (1, 2, 1)] == [{"planned"}, {"planned"}, {"few_kernels"}]
