"""Libraries in which a new kind of array has to be registered."""

from __future__ import annotations

import sys
from typing import Any


def greet() -> None:
    """Register tensors with einops, if it is imported; asked when a session opens.

    einops looks for a backend among the subclasses of its own class. (`einops.array_api` needs
    none, and knows tensors whenever it is imported.)
    """
    if "einops" not in sys.modules:
        return
    from einops import _backends

    numpys: Any = _backends.NumpyBackend
    if any(backend.framework_name == "infinitensor" for backend in numpys.__subclasses__()):
        return

    class InfiniTensorBackend(numpys):  # type: ignore[misc]
        framework_name = "infinitensor"

        def __init__(self) -> None:
            self.np = sys.modules["infinitensor"]

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, self.np.Tensor)

        def from_numpy(self, x: Any) -> Any:
            return self.np.asarray(x)

        def to_numpy(self, x: Any) -> Any:
            return x.numpy()

    numpys.infinitensor = InfiniTensorBackend  # a class that nobody holds is no subclass for long
