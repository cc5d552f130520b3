"""`x.flags`: the logical memory order of a tensor, and whether it may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

if TYPE_CHECKING:
    from infinitensor.api.session.cell import BaseTensor

_SHORT = {"C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable"}
_SHORT |= {"A": "aligned", "X": "writebackifcopy", "B": "behaved", "CA": "carray", "FA": "farray"}
_SHORT |= {"FNC": "fnc", "FORC": "forc", "CONTIGUOUS": "contiguous"}


class Flags:
    """NumPy's flags of a tensor; `writeable` may be set to False, and back where it is no view.

    >>> import infinitensor as it
    >>> it.ones((2, 3)).T.flags.f_contiguous, it.ones(3).flags["WRITEABLE"]
    (True, True)
    """

    aligned, writebackifcopy = True, False

    def __init__(self, tensor: BaseTensor) -> None:
        self._tensor = tensor
        view = tensor._whole()
        ghost = as_strided(np.zeros(1, np.int8), view.shape, view.strides).flags
        has_gaps = bool(view.part) and tensor.size > 1
        self.c_contiguous = ghost.c_contiguous and not has_gaps
        self.f_contiguous = ghost.f_contiguous and not has_gaps
        self.contiguous = self.c_contiguous
        self.forc = self.c_contiguous or self.f_contiguous
        self.fnc = self.f_contiguous and not self.c_contiguous
        self.fortran = self.f_contiguous
        self.owndata = tensor._view is None

    @property
    def writeable(self) -> bool:
        """Whether it may be written."""
        if self._tensor._is_value:
            return False
        return not self._tensor._frozen and not self._tensor._whole().is_broadcast

    @writeable.setter
    def writeable(self, value: bool) -> None:
        if value and not self.writeable and (self._tensor._is_value or not self.owndata):
            raise ValueError("cannot set WRITEABLE flag to True of this array")
        self._tensor._frozen = not value

    @property
    def behaved(self) -> bool:
        """Aligned, and may be written."""
        return self.aligned and self.writeable

    @property
    def carray(self) -> bool:
        """Behaved, in C order."""
        return self.behaved and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Behaved, in Fortran order and not in C order."""
        return self.behaved and self.fnc

    def __getitem__(self, name: str) -> bool:
        known = _SHORT.get(name, name.lower())
        if known not in _SHORT.values():
            raise KeyError("Unknown flag")
        return bool(getattr(self, known))

    def __setitem__(self, name: str, value: bool) -> None:
        if _SHORT.get(name, name.lower()) != "writeable":
            raise KeyError("Unknown flag")
        self.writeable = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flags):
            return NotImplemented
        return all(self[name] == other[name] for name in ("C", "F", "O", "W"))

    __hash__ = None  # type: ignore[assignment]  # as NumPy's: they can change

    def __repr__(self) -> str:
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED")
        return "\n".join(f"  {name} : {self[name]}" for name in names)


def refused(method: str, remedy: str) -> Any:
    """A method that a tensor cannot have, and what to do instead."""

    def method_(self: BaseTensor, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(f"{method}: {remedy}")

    method_.__name__ = method_.__qualname__ = method
    method_.__doc__ = f"Refused: {remedy}."
    return method_
