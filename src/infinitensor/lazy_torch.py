"""torch, which takes seconds to import: only when a kernel first asks for something of it."""

from __future__ import annotations

from typing import Any


class _Torch:
    """The module; what was asked for once is an attribute."""

    def __getattr__(self, name: str) -> Any:
        import torch

        found = getattr(torch, name)
        setattr(self, name, found)
        return found


torch: Any = _Torch()
