"""`x.flat`: the elements of a tensor in C order, to iterate over, index and assign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

import numpy as np

from infinitensor.api.access import view_strides
from infinitensor.api.access.copies import copy_tensor
from infinitensor.api.access.setitem import host_value, replace
from infinitensor.api.record.late import is_tensor
from infinitensor.api.session.cell import AnyTensor

if TYPE_CHECKING:
    from collections.abc import Iterator


class Flat(Generic[AnyTensor]):
    """`x.flat`: the elements in C order."""

    def __init__(self, tensor: AnyTensor) -> None:
        self._tensor = tensor
        self._rest: Iterator[Any] | None = None
        self.index = 0
        """How many were given since the iteration began, or an element was asked for by index."""

    @property
    def base(self) -> AnyTensor:
        """The tensor whose elements they are."""
        return self._tensor

    @property
    def coords(self) -> tuple[int, ...]:
        """The place of the next element."""
        shape = self._tensor.shape
        first, *rest = np.unravel_index(self.index, (self._tensor.size + 1, *shape[1:]))
        return (int(first), *map(int, rest)) if shape else ()

    def copy(self) -> AnyTensor:
        """The elements as a tensor of their own with one axis."""
        return copy_tensor(self._tensor).reshape(-1)

    def __len__(self) -> int:
        return self._tensor.size

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._rest is None:
            self._rest = iter(self._tensor.ravel())
        found = next(self._rest)
        self.index += 1
        return found

    def _start_again(self) -> None:
        self._rest, self.index = None, 0

    def __getitem__(self, index: Any) -> AnyTensor:
        check_flat_index(index)
        self._start_again()
        found = self._tensor.ravel()[index]
        return found if found._is_value else copy_tensor(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = self._tensor
        if tensor._is_value:
            raise TypeError("a scalar does not support item assignment: it has no memory")
        if tensor._frozen:
            raise ValueError("underlying array is read-only")
        check_flat_index(index)
        if isinstance(index, tuple) and not index:
            raise IndexError("Assigning to a flat iterator with a 0-D index is not supported")
        self._start_again()
        given = value.numpy() if is_tensor(value) else value
        single = isinstance(index, int | np.integer)
        if isinstance(given, np.generic) and not single:
            given = np.asarray(given)
        try:
            given = host_value(given, tensor.dtype)
        except (TypeError, OverflowError) as error:
            if not single:
                raise
            raise ValueError("Error setting single item of array.") from error
        view = view_strides.reshaped(tensor._whole(), (tensor.size,))
        flat = tensor._seen_as(view) if view is not None else copy_tensor(tensor).reshape(-1)
        where = np.arange(tensor.size)[index]
        if given.ndim and where.ndim:
            # fewer values than places repeat, as NumPy's flat does
            given = np.resize(given.reshape(-1), where.shape)
        elif given.size == 1:
            given = given.reshape(())
        flat[index] = given
        if view is None:
            replace(tensor, flat.reshape(tensor.shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._tensor.ravel().__array__(dtype, copy)


def check_flat_index(index: Any) -> None:
    """Refuse a new axis: elements in C order have one."""
    if index is None or (isinstance(index, tuple) and None in index):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`) and integer or boolean arrays are "
            "valid indices"
        )
