"""DLPack and torch, both ways: over our memory where a tensor is one tile."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from tests.ir.sessions import local

import infinitensor as it
from infinitensor.api.session.session import current_session

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("strict_or_default")]

X = np.arange(12.0).reshape(3, 4)
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


def used_bytes() -> int:
    session = current_session()
    session.drain()
    return sum(ledger.used_bytes for ledger in local(session).ledgers)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_go_to_numpy_and_torch_and_come_back(dtype: str) -> None:
    values = np.arange(12).astype(dtype).reshape(3, 4)
    x = it.asarray(values)
    np.testing.assert_array_equal(np.from_dlpack(x), values)
    for made in (torch.utils.dlpack.from_dlpack(x), x.torch()):
        np.testing.assert_array_equal(made.numpy(), values)
        for back in (it.asarray(made), it.from_dlpack(made)):
            assert back.dtype == values.dtype
            np.testing.assert_array_equal(back.numpy(), values)


VIEWS: dict[str, Any] = {
    "a transpose": lambda x: x.T,
    "every second column": lambda x: x[1:, ::2],
    "rows backwards": lambda x: x[::-1],
    "a column": lambda x: x[:, 1],
    "one value": lambda x: x[0, 0],
    "no rows": lambda x: x[:0],
    "a diagonal": lambda x: x.diagonal(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_go_out_too(name: str) -> None:
    view = VIEWS[name]
    np.testing.assert_array_equal(view(it.asarray(X)).torch().numpy(), view(X))
    np.testing.assert_array_equal(np.from_dlpack(view(it.asarray(X) + 0)), view(X))


def test_a_tensor_written_later_leaves_what_was_given_out() -> None:
    x = it.asarray(X)
    given = x.torch()
    x[0, 0] = 99
    x *= 2
    x.numpy()
    np.testing.assert_array_equal(given.numpy(), X)


def test_a_consumer_that_asks_for_a_copy_gets_one() -> None:
    x = it.asarray(X)
    made = np.from_dlpack(x, copy=True)
    made[0, 0] = 99
    assert float(x[0, 0]) == 0


def test_the_device_is_named() -> None:
    assert it.asarray(X).__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match=r"is on DLPack device \(1, 0\), not \(2, 0\)"):
        it.asarray(X).__dlpack__(dl_device=(2, 0))
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        it.asarray(X).__cuda_array_interface__  # noqa: B018


def test_a_consumer_older_than_dlpack_1_gets_a_copy() -> None:
    class Old:
        def __init__(self, x: it.Tensor) -> None:
            self.x = x

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = it.asarray(X)
    made = torch.utils.dlpack.from_dlpack(Old(x))
    made[0, 0] = 99
    assert float(x[0, 0]) == 0


def test_a_torch_tensor_that_needs_a_gradient_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"requires grad.*x\.detach\(\)"):
        it.asarray(torch.ones(3, requires_grad=True))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(3).to(torch.float8_e5m2), r"float8_e5m2.*x\.float\(\)"),
        (lambda: torch.eye(3).to_sparse(), r"not dense.*to_dense"),
        (lambda: torch.empty(3, device="meta"), "meta device"),
    ],
)
def test_a_torch_tensor_that_cannot_be_held_is_refused(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        it.asarray(make())


def test_lazy_conjugates_of_torch_are_resolved() -> None:
    source = torch.tensor([1 + 2j, 3 - 1j]).conj()
    np.testing.assert_array_equal(it.asarray(source).numpy(), [1 - 2j, 3 + 1j])


# --- memory -----------------------------------------------------------------------------------

N = 100_000


def test_one_tile_is_given_out_without_a_copy_and_counted_while_it_is_used() -> None:
    it.shutdown()
    with it.init("cpu"):
        it.config.tile_elements = 1 << 20
        try:
            x = it.asarray(np.zeros(N)) + 1
            given = x.torch()[10:]
            tile = x.local_tiles()[0][1]
            assert given.data_ptr() == tile.ctypes.data + 80
            held = used_bytes()
            del x, tile
            gc.collect()
            assert used_bytes() == held, "the budget forgot memory that torch still looks at"
            other = it.asarray(np.zeros(N)) - 7
            it.compute(other)
            assert float(given.sum()) == N - 10
            before = used_bytes()
            del given
            gc.collect()
            assert used_bytes() <= before - 8 * N
        finally:
            it.config.tile_elements = 0


def test_several_tiles_are_given_out_one_by_one() -> None:
    with it.init("cpu*2"):
        x = it.asarray(np.arange(float(N))).relayout(4)
        with pytest.raises(BufferError, match=r"not in one piece.*local_tiles"):
            np.from_dlpack(x, copy=False)
        np.testing.assert_array_equal(np.from_dlpack(x), np.arange(float(N)))
        pieces = [torch.utils.dlpack.from_dlpack(tile) for _, tile in x.local_tiles()]
        assert [len(piece) for piece in pieces] == [N // 4] * 4
        x += 1
        x.numpy()
        assert sum(float(piece.sum()) for piece in pieces) == N * (N - 1) / 2


def test_what_was_given_out_outlives_its_session() -> None:
    with it.init("cpu"):
        given = (it.asarray(np.zeros(N)) + 3).torch()
        tiles = (it.asarray(np.zeros(N)) + 4).local_tiles()
    with it.init("cpu"):
        it.compute(it.asarray(np.zeros(N)) - 1)
    assert float(given.sum()) == 3 * N
    assert all((tile == 4).all() for _, tile in tiles)
