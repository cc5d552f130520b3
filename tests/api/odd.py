"""Odd calls: those of the op table, with arguments changed to what programs also give.

python -m tests.api.odd strict 7 20        a campaign: mode, seed, calls of each function
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from tests.ir.sessions import strict

import infinitensor as it
from infinitensor.api.functions.all_functions import PUBLIC
from infinitensor.api.functions.options import numpys
from infinitensor.ops import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "i1": lambda x, rng: x.astype("i1"),
    "u8": lambda x, rng: x.astype("u8"),
    "i8": lambda x, rng: x.astype("i8"),
    "f2": lambda x, rng: x.astype("f2"),
    "f4": lambda x, rng: x.astype("f4"),
    "c8": lambda x, rng: x.astype("c8"),
    "bool": lambda x, rng: x.astype("?"),
    "empty": lambda x, rng: x[:0],
    "empty last": lambda x, rng: x[..., :0],
    "one": lambda x, rng: x[:1],
    "shorter": lambda x, rng: x[:-1],
    "without axes": lambda x, rng: x.reshape(-1)[:1].reshape(()),
    "scalar": lambda x, rng: x.reshape(-1)[0],
    "python scalar": lambda x, rng: x.reshape(-1)[0].item(),
    "list": lambda x, rng: x.tolist(),
    "rows": lambda x, rng: list(x),
    "pairs": lambda x, rng: (x, x),
    "backwards": lambda x, rng: x[::-1],
    "backwards by two": lambda x, rng: x[..., ::-2],
    "transposed": lambda x, rng: x.T,
    "transposed copy": lambda x, rng: np.asfortranarray(x),
    "one more axis": lambda x, rng: x[None],
    "a last axis": lambda x, rng: x[..., None],
    "flat": lambda x, rng: x.reshape(-1),
    "broadcast": lambda x, rng: np.broadcast_to(x, (2, *x.shape)),
    "constant": lambda x, rng: np.broadcast_to(x.reshape(-1)[:1], x.shape),
    "negative": lambda x, rng: -x,
    "zeros": lambda x, rng: x * 0,
    "minus zeros": lambda x, rng: -(x * 0.0),
    "nan": lambda x, rng: np.where(rng.random(x.shape) < 0.4, np.nan, x),
    "inf": lambda x, rng: np.where(rng.random(x.shape) < 0.3, np.inf, x),
    "minus inf": lambda x, rng: np.where(rng.random(x.shape) < 0.3, -np.inf, x),
    "huge": lambda x, rng: x * 1e300,
    "large integers": lambda x, rng: (x * 0).astype("i8") + 2**62 + 1,
    "largest": lambda x, rng: np.full(x.shape, 2**64 - 1, "u8"),
    "tiny": lambda x, rng: x * 1e-310,
}
"""What is put in place of an array."""
SCALARS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 100, True, False, None, 1.0, 0.5, -0.0, 1e300, np.nan, np.inf, 2**62, 2**63,
    2**70, -(2**70), 1j, np.int8(1), np.int8(-1), np.uint8(200), np.float32(0.1), np.float64(1.5),
    np.bool_(True), np.complex64(1j), np.array(1), np.array([1]), np.array([]), np.array(0.5),
    (), (0,), (1,), (0, 1), (0, 0), (-1,), [0], [0, 1], (1, 0), "x", "f4", int, float,
)  # fmt: skip
"""What is put in place of a number, or of anything else that is no array."""
OPTIONS: dict[str, tuple[Any, ...]] = {
    "axis": (
        0,
        1,
        -1,
        None,
        True,
        False,
        np.int8(1),
        np.array(0),
        (0,),
        (0, 1),
        (1, 0),
        (0, 0),
        (-1, 0),
        (),
        [0],
        5,
        -5,
        1.0,
        "x",
    ),
    "keepdims": (True, False, 1, 0, np.True_, None),
    "dtype": (int, float, complex, bool, "i1", "u1", "u8", "f2", "f4", "c8", "i4", None, "x"),
    "ddof": (0, 1, 2, 100, -1, 0.5, True, np.int8(1)),
    "correction": (0, 1, 0.5, 100),
    "initial": (0, 1, -1, 2.5, np.int8(3), 1e300, True, np.nan),
    "where": (True, False, np.True_, np.array([True]), np.array(False), [True, False]),
    "casting": ("no", "safe", "same_kind", "unsafe", "equiv", "x"),
    "order": ("C", "F", "K", "A", "x", None),
    "out": (None,),
    "mode": ("raise", "wrap", "clip", "full", "same", "valid", "x"),
    "side": ("left", "right", "x"),
    "endpoint": (True, False, 0),
    "n": (0, 1, 2, 3, -1, 7, True, np.int8(2), None),
    "k": (0, 1, -1, 7, -7, np.int8(1), True),
}
"""What is put in place of keywords, by their names."""
LEFT_OUT = frozenset(
    (
        *("array2string", "array_repr", "array_str", "set_printoptions", "printoptions"),
        *("open", "save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt"),
        *("fromfile", "get_printoptions", "seterr", "geterr", "vectorize", "frompyfunc"),
        *("from_dlpack", "may_share_memory", "shares_memory", "einsum_path", "apply_along_axis"),
        *("apply_over_axes", "fromiter", "fromstring", "frombuffer", "empty", "empty_like"),
        *("piecewise", "put", "place", "putmask", "put_along_axis", "copyto", "fill_diagonal"),
        *("argpartition", "partition"),
    )
)
"""Files, texts, memory, users' functions; what changes its argument; what is not one result."""


UNSAID = {"clip": ("where",), "fft.fftfreq": ("dtype",), "fft.rfftfreq": ("dtype",)}
"""Options that only we have, or without which NumPy leaves values open."""


NUMPYS: dict[str, Callable[..., Any]] = {
    "argsort": lambda *args, **more: np.argsort(*args, **{"kind": "stable", **more}),
}
"""NumPy's functions given what ours do always: equal values keep their order."""
COMPARED: dict[str, Callable[[Any], Any]] = {"unique_values": np.sort}
"""What NumPy leaves open does not count: the order of values."""


class Odd(NamedTuple):
    """A call, and what was done to make it."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    said: str


def names() -> list[str]:
    """Functions that have cases in the table and a namesake in NumPy."""
    return sorted(
        name
        for name in PUBLIC
        if callable(numpys(name))
        and not isinstance(numpys(name), type)
        and "random" not in name
        and name not in LEFT_OUT
        and name in TABLE
        and TABLE[name].cases is not None
    )


def odd_calls(name: str, seed: int, n: int) -> Iterator[Odd]:
    """Calls of a function, each with one to three arguments changed."""
    rng = np.random.default_rng([seed, *name.encode()])
    cases = TABLE[name].cases
    assert cases is not None
    base = cases(np.random.default_rng(0))
    taken = inspect.signature(PUBLIC[name]).parameters
    unsaid = ("out", "where") if isinstance(numpys(name), np.ufunc) else UNSAID.get(name, ())
    options = [option for option in OPTIONS if option in taken and option not in unsaid]
    for _ in range(n):
        args, kwargs = base[rng.integers(len(base))]
        args, kwargs, said = list(args), dict(kwargs), []
        for _ in range(rng.integers(1, 4)):
            place = rng.integers(len(args) + len(options) + 1)
            if place < len(args):
                args[place], how = changed(args[place], rng)
                said.append(f"{place}: {how}")
            elif options:
                option = options[rng.integers(len(options))]
                kwargs[option] = OPTIONS[option][rng.integers(len(OPTIONS[option]))]
                said.append(f"{option}={kwargs[option]!r}")
        yield Odd(name, tuple(args), kwargs, ", ".join(said))


def changed(value: Any, rng: Any) -> tuple[Any, str]:
    """Another value in place of one, and in what way."""
    if isinstance(value, np.ndarray):
        for _ in range(9):
            how = list(ARRAYS)[rng.integers(len(ARRAYS))]
            try:
                with catch_warnings(), np.errstate(all="ignore"):
                    simplefilter("ignore")
                    return ARRAYS[how](value, rng), how
            except (ValueError, IndexError, TypeError):
                continue
    if isinstance(value, list | tuple) and len(value) and isinstance(value[0], np.ndarray):
        place = rng.integers(len(value))
        one, how = changed(value[place], rng)
        return [*value[:place], one, *value[place + 1 :]], f"[{place}] {how}"
    if isinstance(value, str) or callable(value):
        return value, "same"
    made = SCALARS[rng.integers(len(SCALARS))]
    return made, repr(made)


def tensors(value: Any) -> Any:
    """The argument for us: tensors in place of arrays, in lists and tuples too."""
    if isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray):
        return it.asarray(value)
    return type(value)(map(tensors, value)) if type(value) in (list, tuple) else value


KINDS = (IndexError, OverflowError, TypeError, np.linalg.LinAlgError, ValueError, KeyError)


def outcome(call: Callable[[], Any]) -> Any:
    """A list of arrays, or the kind of error."""
    try:
        with catch_warnings(), np.errstate(all="ignore"):
            simplefilter("ignore")
            return [np.asarray(one) for one in flat(call())]
    except Exception as error:
        return next((k for k in KINDS if isinstance(error, k)), type(error)), str(error)[:150]


def flat(made: Any) -> Iterator[Any]:
    if isinstance(made, tuple | list):
        for one in made:
            yield from flat(one)
    else:
        yield made


def difference(odd: Odd) -> str:
    """What we make of a call that NumPy does not: "" is nothing."""
    compared = COMPARED.get(odd.name) or TABLE[odd.name].compared or (lambda found: found)
    args, kwargs = copy.deepcopy((odd.args, odd.kwargs))
    theirs = NUMPYS.get(odd.name, numpys(odd.name))
    want = outcome(lambda: compared(theirs(*args, **kwargs)))
    kwargs = {key: tensors(value) for key, value in odd.kwargs.items()}
    ours = tuple(map(tensors, odd.args))
    got = outcome(lambda: compared(host(PUBLIC[odd.name](*ours, **kwargs))))
    if isinstance(want, tuple) and isinstance(got, tuple):
        return "" if want[0] is got[0] else f"kind: {got} for {want}"
    if isinstance(want, tuple):
        return f"lenient: {shown(got)} for {want}"
    if any(a.dtype.kind not in "biufc" for a in want):
        return ""  # objects and texts are not held
    if isinstance(got, tuple):
        return f"refused: {got} for {shown(want)}"
    if len(got) != len(want):
        return f"number: {len(got)} for {len(want)}"
    for one, other in zip(got, want, strict=True):
        if one.dtype != other.dtype:
            return f"dtype: {shown([one])} for {shown([other])}"
        if one.shape != other.shape:
            return f"shape: {shown([one])} for {shown([other])}"
        if not close(one, other):
            return f"value: {shown([one])} for {shown([other])}"
    return ""


def host(made: Any) -> Any:
    if isinstance(made, it.Tensor):
        return made.numpy()
    if isinstance(made, tuple | list):
        parts = [host(one) for one in made]
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    return made


def close(one: np.ndarray, other: np.ndarray) -> bool:
    if other.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    rtol = {"e": 1e-2, "f": 1e-4, "F": 1e-4}.get(other.dtype.char, 1e-8)
    size = np.abs(other[np.isfinite(other)]).max(initial=0)
    with np.errstate(all="ignore"):
        return bool(np.allclose(one, other, rtol, rtol * min(size, 1e100), equal_nan=True))


def shown(arrays: list[Any]) -> str:
    texts = (f"{a.dtype}{a.shape} {a.reshape(-1)[:6].tolist()}" for a in arrays)
    return "; ".join(texts)[:160]


SERIOUS = ("value", "dtype", "shape", "number", "refused")
"""Differences in what a call that NumPy takes gives; the rest are kinds of errors."""


class Known(NamedTuple):
    """A difference that is meant: patterns of the function, of what was changed, of what came."""

    name: str
    said: str
    found: str
    why: str


KNOWN = (
    Known(r".*", r"", r"holds numbers|'NoneType'|inhomogeneous", "texts and objects are not held"),
    Known(
        r".*",
        r"axis=([\[(]|1\.0)",
        r"refused: .*(integer|iterable)",
        "one axis is an integer",
    ),
    Known(r"fft\..*", r"inf|nan|huge", r"value", "NaN and infinities spread by the factors of n"),
    Known(r"fft\..*", r"f2", r"value", "halves are scaled by 1/n, not by 1/n as a half"),
    Known(r"fft\.ir?fft.?", r"empty", r"value", "NumPy leaves the memory as it was"),
    Known(r"linalg\..*", r"inf|nan|huge|tiny|zeros", r"value|LinAlg", "no number: LAPACKs differ"),
    Known(r"linalg\.eig(vals)?", r"", r"dtype", "complex or not is found from rounded values"),
    Known(r"(nan)?(var|std)", r"dtype=('[iu]|<class '(int|bool))", r"refused", "no integers"),
    Known(r"(nan)?(var|std)", r"dtype=", r"refused: .*cannot cast", "drops a part"),
    Known(r"(bartlett|blackman|hamming|hanning|kaiser)", r"0: .*j", r"", "no complex length"),
    Known(r"kaiser", r"1: ", r"refused", "a shape is a number"),
    Known(r"nan(min|max)", r"initial=", r"value", "NumPy has another rule for NumPy's scalars"),
    Known(r"arange", r"j", r"shape|value", "a range of complex numbers has no order"),
    Known(r"arange", r"1e\+300", r"value", "steps beyond the dtype"),
    Known(r"clip", r"dtype='c8'", r"value", "bounds the wrong way round, of complex numbers"),
    Known(r"(convolve|correlate)", r"inf|nan|huge", r"value", "sums in another order"),
    Known(r"(array_|[dhv])?split", r"rows|list|pairs", r"shape|number", "of a list: its length"),
    Known(r"full", r"1: [\[(]", r"refused", "a number is no sequence"),
    Known(r"histogram.*", r"empty|\[\]", r"refused: .*IndexError", "no bins have no edges"),
    Known(r"(nan)?(quantile|percentile)", r"1: .*j", r"refused", "a share is no complex number"),
    Known(r"polyfit", r"", r"value: .*e-[12]\d", "residuals that are rounding alone"),
    Known(r"polyfit", r"2: .*j", r"refused", "a degree is no complex number"),
    Known(r"(searchsorted|digitize|interp)", r"[01]: ", r"value", "points that do not rise"),
    Known(r"take", r"1: np.float", r"refused", "indices are integers"),
    Known(r"tri.*", r"1: huge", r"refused", "a diagonal has 64 bits"),
    Known(r"tri.*", r"j\)", r"", "lengths are integers"),
    Known(r"tri.*", r"(1|k)[:=] ?(np.float|0.5|-?1e|nan|inf)", r"", "a diagonal has an integer"),
)
"""Differences that are meant, each with its reason."""


def is_wrong(odd: Odd, found: str) -> bool:
    """Whether a difference is one that users should not meet."""
    is_known = any(
        re.fullmatch(known.name, odd.name)
        and re.search(known.said, odd.said)
        and re.search(known.found, found)
        for known in KNOWN
    )
    beyond = any(type(x) is int and abs(x) >= 2**63 for x in (*odd.args, *odd.kwargs.values()))
    return found.startswith(SERIOUS) and not is_known and not beyond


def session(mode: str) -> Any:
    """At once on the host; by plans on one device; by tiles of seven on three."""
    if mode == "small":
        return it.init("cpu")
    return strict("cpu*3", 7) if mode == "strict" else strict("cpu", 0)


if __name__ == "__main__":
    with session(sys.argv[1]):
        for name in names():
            for odd in odd_calls(name, int(sys.argv[2]), int(sys.argv[3])):
                found = difference(odd)
                if found:
                    sign = "!" if is_wrong(odd, found) else " "
                    print(f"{sign} {name} ({odd.said}): {found}", flush=True)
