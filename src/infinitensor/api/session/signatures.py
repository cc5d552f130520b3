"""Functions of a signature, made as text: arguments find their names at the speed of a call.

`inspect.Signature.bind` takes tens of microseconds; the interpreter binds in less than one, and
its errors name the function as users know them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_KINDS = inspect.Parameter


def make_function(name: str, signature: inspect.Signature, body: str, names: dict[str, Any]) -> Any:
    """A function with a signature that returns `body`, an expression over its parameters.

    >>> def f(x, /, axis=None, *, keepdims=False): ...
    >>> make_function("f", inspect.signature(f), "(x, axis, keepdims)", {})(1, 0)
    (1, 0, False)
    """
    texts = []
    known = {"__name__": __name__, **names}  # by which a user's call is distinguished from ours
    before = None
    for p in signature.parameters.values():
        if before is _KINDS.POSITIONAL_ONLY and p.kind is not before:
            texts.append("/")
        if p.kind is _KINDS.KEYWORD_ONLY and before not in (p.kind, _KINDS.VAR_POSITIONAL):
            texts.append("*")
        if p.default is _KINDS.empty:
            texts.append(_mark(p) + p.name)
        else:
            known[f"_default_{p.name}"] = p.default
            texts.append(f"{p.name}=_default_{p.name}")
        before = p.kind
    if before is _KINDS.POSITIONAL_ONLY:
        texts.append("/")
    short = name.rpartition(".")[2]
    found: dict[str, Any] = {}
    exec(f"def {short}({', '.join(texts)}): return {body}", known, found)
    return found[short]


def _mark(parameter: inspect.Parameter) -> str:
    if parameter.kind is _KINDS.VAR_POSITIONAL:
        return "*"
    return "**" if parameter.kind is _KINDS.VAR_KEYWORD else ""


def binder(name: str, signature: inspect.Signature) -> Callable[..., dict[str, Any]]:
    """`bind(*args, **kwargs)`: every parameter with its argument or default, in order."""
    pairs = ", ".join(f"{p!r}: {p}" for p in signature.parameters)
    bind: Callable[..., dict[str, Any]] = make_function(name, signature, f"{{{pairs}}}", {})
    return bind


def plain(value: Any) -> Any:
    """Integers and truths of NumPy's as Python's, in tuples and lists too.

    Calls are known by their arguments, of which `np.int8(3)` and 3 are equal: what one is made
    with, the other gets, and eight bits overflow where lengths are multiplied.

    >>> plain((np.int8(3), [np.True_], 2.5))
    (3, [True], 2.5)
    """
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if type(value) is tuple or type(value) is list:
        return type(value)(map(plain, value))
    return value


def plain_integer(value: Any) -> Any:
    """`plain`, and of an array without axes the integer it holds, which is computed now."""
    if type(value) is int or value is None:
        return value
    if hasattr(value, "dtype") and not value.shape and value.dtype.kind in "iu":
        return int(value)
    return plain(value)


def forwarder(
    name: str,
    signature: inspect.Signature,
    function: Callable[..., Any],
    first: Any,
    converters: dict[str, Callable[[Any], Any]],
) -> Callable[..., Any]:
    """`function(first, ...)` with some arguments converted; a default stays as it is."""
    texts = []
    for p in signature.parameters.values():
        text = p.name
        if p.name in converters:
            text = f"_convert_{p.name}({p.name})"
            if p.default is not _KINDS.empty:
                text = f"({p.name} if {p.name} is _default_{p.name} else {text})"
        texts.append(f"{p.name}={text}" if p.kind is _KINDS.KEYWORD_ONLY else _mark(p) + text)
    names: dict[str, Any] = {f"_convert_{n}": convert for n, convert in converters.items()}
    names |= {"_function": function, "_first": first}
    body = f"_function(_first, {', '.join(texts)})"
    call: Callable[..., Any] = make_function(name, signature, body, names)
    return call


def signed_as(other: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function takes what another one takes, and hands it on."""

    def sign(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return function

    return sign
