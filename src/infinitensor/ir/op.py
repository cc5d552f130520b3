"""An op: one table entry from which the function, the cuts, the tasks and the tests follow.

An op never knows devices, tiles or tensors. It says, for shapes and parameters, which *labels* its
axes have (`AxisForm`), and how to compute one tile from tiles. Everything else is derived.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from infinitensor.ir.region import Box

Labels: TypeAlias = tuple[int | None, ...]
Params: TypeAlias = tuple[tuple[str, Any], ...]
Kind: TypeAlias = Literal[
    "elementwise", "creation", "mapped", "gather", "reduction", "contraction", "update", "program"
]


@dataclass(frozen=True, slots=True)
class Spec:
    """The shape and dtype of an operand before it has values; `weak` is set for a Python scalar."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak: type | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def n_elements(self) -> int:
        """Elements in all."""
        return prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Bytes in all."""
        return prod(self.shape) * int(self.dtype.itemsize)


@dataclass(frozen=True, slots=True)
class AxisForm:
    """Extended einsum: which label each axis of each operand has.

    A label is a number into `sizes`. `None` on an input axis: always index 0 (broadcast of a size-1
    axis); on an output axis: a new axis of size 1. Labels in no output are contracted; cutting one
    needs the op's `combine`. `uncut` labels are never cut. `halo` widens what a tile of an input
    reads: per input, per axis, (before, after), clipped at the borders.
    """

    sizes: tuple[int, ...]
    inputs: tuple[Labels, ...]
    outputs: tuple[Labels, ...]
    uncut: frozenset[int] = frozenset()
    halo: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def contracted(self) -> tuple[int, ...]:
        """Labels that no output has."""
        kept = {label for labels in self.outputs for label in labels}
        return tuple(label for label in range(len(self.sizes)) if label not in kept)


@dataclass(frozen=True, slots=True)
class Call:
    """An op applied to specs: what its rule returns and all later stages ask for."""

    form: AxisForm
    outs: tuple[Spec, ...]
    params: Params = ()
    loop: tuple[np.dtype[Any], ...] = ()
    """The dtype each input is computed in; empty: its own."""
    parts: tuple[np.dtype[Any], ...] = ()
    """Reductions: the dtypes of the partial results; empty: those of the outputs."""
    tail: tuple[int, ...] = ()
    """Axes that partial results have behind the kept labels (top-k has one)."""


def call(form: AxisForm, *outs: Spec, **params: Any) -> Call:
    """A `Call` with parameters by name (hashable values: they are part of the plan key)."""
    return Call(form, outs, tuple(params.items()))


@dataclass(frozen=True, slots=True)
class At:
    """The regions of a task's tiles, for kernels that need them (`located=True`)."""

    outputs: tuple[Box, ...]
    inputs: tuple[Box | None, ...]


@dataclass(frozen=True, slots=True)
class Combine:
    """How partial results of two neighbouring pieces become one.

    `merge(xp, a, b)` takes and returns tuples of partial arrays; `a` is before `b`. `exact` says
    that association changes no bits (min, any, top-k ...), else pieces are merged in a fixed tree.
    """

    name: str
    merge: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]
    exact: bool


Rule: TypeAlias = "Callable[..., Call]"
Kernel: TypeAlias = "Callable[..., Any]"
Need: TypeAlias = "Callable[..., tuple[Box | None, ...]]"


def no_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """The default: a kernel that writes straight into `out`."""
    return 0


@dataclass(frozen=True, slots=True)
class Op:
    """One line of the table.

    kind         rule and kernel
    elementwise  rule(*specs); `expression(e, *args)` over the scalar vocabulary is the kernel
    creation     rule(...); kernel(xp, *scalars, out, at, **params)
    mapped       rule(*specs, ...); kernel(xp, *tiles, out, **params) on tiles cut by the form
    gather       as mapped, but `need(box, specs, **params)` says which box of each input the
                 output box `box` is made from (None: nothing of it)
    reduction    kernel(xp, *tiles, axes, **params) -> partial arrays without the contracted axes;
                 `combine` merges two such tuples; finish(xp, *parts, out, **params)
    contraction  kernel(xp, *tiles, out, **params); partial results are added
    update       changes its first input: kernel(xp, *tiles, out, at, **params) gets a tile of it as
                 `out` (it is not among `tiles`) and changes that in place; `need(box, specs,
                 **params)` gives a box of every input for the tile with box `box` (None in all of
                 them: tile untouched)
    program      program(xp, *args): other ops, called on `xp`
    """

    name: str
    kind: Kind
    rule: Rule
    arrays: tuple[str, ...]
    """Names of the parameters that take tensors; `*xs` takes a sequence of them."""
    doc: str
    kernel: Kernel | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict)
    """Kernels for one kind of device ("cpu", "cuda"), where the common one is not the best."""
    expression: Any = None
    combine: Combine | None = None
    finish: Kernel | None = None
    at_once: dict[str, Kernel] = field(default_factory=dict)
    """For one kind of device: at_once(xp, tile, axes, out, **params) makes the result of a
    reduction of which nothing is cut by one call of a library, or answers False."""
    need: Need | None = None
    located: bool = False
    scratch_bytes: Callable[..., int] = no_scratch
    scratches: dict[str, Callable[..., int]] = field(default_factory=dict)
    """Bytes that kernels allocate where they differ from the common one: for one kind of device
    ("cuda"), or over the functions of an array library because nothing is compiled ("numpy" on
    CPUs, "torch" on GPUs)."""
    plain_scratch: Callable[..., int] | None = None
    """Bytes that it allocates where every operand has its stored strides, or is some lines of
    it."""
    added: Kernel | None = None
    """added(xp, before, *tiles, out, **params): a contraction of two matrices, added to what was
    there before; `out` may be the memory of `before`."""
    pairs: bool = False
    """A reduction over pairs: its tiles are bound by its operands, not by the pairs of them. Its
    kernel takes `before`, partial results of other points of y, and goes on from them."""
    grain: Callable[..., int] | None = None
    """grain(**params): elements that each one of a gather is made from; it makes tiles smaller."""
    moves: bool = False
    """It puts elements elsewhere, counts them, or transforms lines of them, in one loop: on the
    host it runs at once up to a medium size. For all of an output that is not empty its kernel
    takes all of each input."""
    cost: float = 1.0
    """Floating-point operations for each point of the label space."""
    whole: bool = False
    threaded: bool = False
    """Its kernel is a library's, which uses all cores in a thread that has them."""
    wide: bool = False
    """bfloat16 is computed in float32, and the result rounded: the kernel, or the program, has no
    way of its own with it, or would round at every step."""
    random: bool = False
    """Never merged with an equal call."""
    alone: tuple[str, tuple[Any, ...]] | None = None
    """Of several results the last alone: the op that makes it, and its arguments behind arrays."""
    method: bool = False
    cases: Callable[..., Any] | None = None
    """cases(rng) -> [(args, kwargs)]: small inputs for the tests; None: made from the kind."""
    oracle: Callable[..., Any] | None = None
    """The same function over NumPy arrays; None: NumPy's function of that name."""
    same: Literal["equal", "close"] = "close"
    compared: Callable[..., Any] | None = None
    """The part of a result that tests compare, where its definition leaves a choice (signs of
    vectors)."""

    def kernel_for(self, device_kind: str) -> Kernel:
        """The tile kernel on this kind of device."""
        kernel = self.kernels.get(device_kind, self.kernel)
        assert kernel is not None, self.name
        return kernel


def n_points(op: Op, call: Call) -> int:
    """Points of the label space that work grows with: of pairs, what only results have is none.

    A reduction of no pairs looks at each value once, however many bins or labels it sorts them to;
    so does one loop over elements.
    """
    form = call.form
    if (op.kind == "reduction" and not op.pairs) or op.moves:
        tiles = form.inputs if op.kind == "reduction" else (*form.inputs, *form.outputs)
        return max(
            prod(form.sizes[label] for label in labels if label is not None) for labels in tiles
        )
    if not op.pairs:
        return prod(form.sizes)
    given = {label for labels in form.inputs for label in labels}
    return prod(form.sizes[label] for label in given if label is not None)
