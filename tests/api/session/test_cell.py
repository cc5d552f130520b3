"""What a tensor is to the rooms that `Tensor` is made of."""

from __future__ import annotations

import threading

import infinitensor as it
from infinitensor.api.session.cell import BaseTensor, guard
from infinitensor.api.tensor.tensor import Tensor


def test_a_tensor_has_the_fields_of_its_base_and_no_others() -> None:
    assert BaseTensor.__subclasses__() == [Tensor]
    assert Tensor.__slots__ == ()
    assert not hasattr(it.ones(3), "__dict__")


def test_a_guarded_function_holds_the_lock_of_the_tensors_session() -> None:
    had_it: list[int] = []

    def work(x: Tensor) -> threading.Thread:
        def wait() -> None:
            with x._session.lock:
                had_it.append(2)

        other = threading.Thread(target=wait)
        other.start()
        other.join(0.05)
        had_it.append(1)
        return other

    with it.init("cpu"):
        guard(work)(it.ones(3)).join()
    assert had_it == [1, 2]
