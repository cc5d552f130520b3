"""Bar F13 on a GPU: torch may take less of it than the budget says."""

from __future__ import annotations

import contextlib
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ir.sessions import local

import infinitensor as it

from .refusal import assert_one_refusal_changes_nothing, values_of
from .sampling import time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.gpu, time_limit(120), pytest.mark.filterwarnings("error")]

N = 1024
VALUES = np.random.default_rng(0).normal(size=(N, N)).astype(np.float32) / N
MATRIX = VALUES.nbytes


@pytest.fixture(autouse=True)
def strict_tiles() -> None:
    it.config.small_elements = 0


def program(x: Any) -> list[Any]:
    """Products of products, a sort (whose kernel works in much memory), and sums."""
    y = it.tanh(x @ x.T)
    z = y @ x
    w = it.exp(z - y)
    return [w @ y, (w * z).sum(axis=0), it.sort(w - y, axis=1)]


@contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """While it lasts torch may take so many bytes more of the GPU than it has."""
    import torch

    gc.collect()  # what tests before this one left in cycles would be memory to find later
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + n_bytes) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def expected() -> list[np.ndarray]:
    """The same with room for everything."""
    with it.init("cuda:0", memory="1GiB"):
        return values_of(program(it.asarray(VALUES)))


def assert_near(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    """Smaller tiles change the last bits of products."""
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * float(np.abs(b).max()))


def test_memory_refused_once_at_any_allocation_changes_nothing() -> None:
    assert_one_refusal_changes_nothing(
        lambda: it.init("cuda:0", memory="1GiB", host_memory="1GiB"),
        program,
        VALUES,
        expected(),
        "refused allocations of a GPU",
    )


@pytest.mark.parametrize("n_matrices", [24, 12, 8])
def test_a_gpu_with_less_memory_than_was_said_gets_smaller_plans(n_matrices: int) -> None:
    import torch

    wanted = expected()
    with it.init("cuda:0", memory="1GiB", host_memory="1GiB") as session:
        x = it.asarray(VALUES)
        it.compute(x)
        asked = program(x)
        planned = max(it.plan(*asked).peak_bytes.values())
        allowed = n_matrices * MATRIX + (20 << 20)  # torch takes segments of 20 MiB
        with at_most(allowed - MATRIX):
            torch.cuda.reset_peak_memory_stats()
            assert planned > allowed or n_matrices > 12
            assert_near(values_of(asked), wanted)
            assert torch.cuda.max_memory_reserved() <= allowed + torch.cuda.memory_reserved()
        assert local(session).ledgers[0].budget_bytes == 1 << 30, "it is asked again next time"
        del x, asked
        session.drain()
        assert local(session).ledgers[0].used_bytes == 0


def rest_of_segments(device: Any) -> list[Any]:
    """All that torch has reserved and not given out.

    What was freed on a stream is for that stream; blocks up to 1 MiB have segments of their own.
    """
    import torch

    held: list[Any] = []
    for where in (device.running(), contextlib.nullcontext()):
        with where:
            for n_bytes in (4 << 20, (1 << 20) + 512, 1 << 20, 1 << 12):
                with contextlib.suppress(torch.OutOfMemoryError):
                    while True:
                        held.append(torch.empty(n_bytes, dtype=torch.uint8, device="cuda"))
    return held


def test_a_gpu_without_memory_is_an_error_that_names_the_task_and_nothing_leaks() -> None:
    wanted = expected()
    with it.init("cuda:0", memory="1GiB", host_memory=0) as session:
        x = it.asarray(VALUES)
        it.compute(x)
        before = local(session).ledgers[0].used_bytes
        asked = program(x)
        with at_most(0):
            held = rest_of_segments(local(session).devices[0])
            with pytest.raises(it.DeviceOutOfMemoryError, match="has no") as caught:
                it.compute(*asked)
            del held
        assert caught.value.op
        assert caught.value.tile >= 0
        assert caught.value.n_bytes > 0
        assert "test_refused_gpu.py" in "".join(caught.value.__notes__)
        del caught
        assert_near(values_of(asked), wanted)
        del asked
        session.drain()
        assert local(session).ledgers[0].used_bytes <= before  # x may have made room
        np.testing.assert_array_equal(x.numpy(), VALUES)


def test_a_kernel_without_scratch_runs_again_when_memory_at_rest_is_given_back() -> None:
    """Slabs at rest belong to nobody, but torch cannot use them for what kernels work in."""
    x = np.random.default_rng(1).normal(size=1 << 22).astype(np.float32)
    with it.init("cuda:0", memory="2GiB") as session:
        given = it.asarray(x)
        it.compute(given)
        rest = it.ones(3 << 26, dtype=np.uint8)
        it.compute(rest)
        del rest
        session.drain()
        ledger = local(session).ledgers[0]
        resting = ledger.resting_bytes
        assert resting >= 3 << 26
        with at_most(24 << 20):  # a slab for the result, no more
            np.testing.assert_array_equal(it.argsort(given).numpy(), np.argsort(x, kind="stable"))
        assert ledger.resting_bytes < resting
