"""One dataclass of settings; each is also `INFINITENSOR_<NAME>` in the environment."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass, fields
from typing import Any

CHOICES = {
    "compile": ("auto", "always", "never"),
    "rounding": ("numpy", "fused"),
    "strategy": ("auto",),
}
LEAST_VALUES = {"cache_bytes": -1, "plan_cache": 1, "max_recorded_nodes": 1}
"""The smallest values of integer settings; 0 for all others."""


@dataclass(slots=True)
class Config:
    """Settings of a user. Read at each evaluation, so a change takes effect at the next one."""

    small_elements: int = 65_536
    """An op on fewer elements, all on the host, runs at once on NumPy arrays; 0: never."""
    tile_elements: int = 0
    """The largest tile, in elements; 0: each device's own default."""
    inline_elements: int = 262_144
    """A plan over fewer elements runs in the calling thread, without the workers."""
    devices: str = ""
    """The devices of `init` by default."""
    memory: str = ""
    """Bytes per device when `init` is given none; empty: 80 % of what is free."""
    workers: int = 0
    """Threads that run CPU tasks; 0: one for each core this process may use."""
    compile: str = "auto"
    """Generated code for fused groups: "auto" (large ones), "always" or "never"."""
    rounding: str = "numpy"
    """How generated code on GPUs rounds: "numpy": each step as NumPy does; "fused": products and
    sums at once, quotients, roots and exp of float32 approximately. CPUs round as NumPy does."""
    progress: bool = False
    """Show a progress line while a plan runs; in a log, one every ten seconds."""
    strategy: str = "auto"
    """How layouts are chosen."""
    max_recorded_nodes: int = 10_000
    """Waiting calls that start an evaluation of the live tensors."""
    max_recorded_bytes: int = 1 << 30
    """Bytes that waiting calls hold or will make, which start one too."""
    cache_bytes: int = -1
    """The processor's last cache, half of which steps of stencils share; -1: as the system says."""
    fixed_order: bool = False
    """Whether lanes keep to the order of the program, for comparison: slower, never faster."""
    lazy_results: bool = False
    """Estimators and scores return results as long as their points as tensors that wait, which read
    the points when they are computed; else as NumPy arrays. What is fitted stays NumPy's."""
    plan_cache: int = 256
    """Plans kept, least recently used dropped first."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, _check(name, value))

    @classmethod
    def from_environment(cls) -> Config:
        """The defaults, changed by `INFINITENSOR_<NAME>` variables.

        A value that cannot be read is an error that names the variable.
        """
        config = cls()
        for field in fields(cls):
            text = os.environ.get(f"INFINITENSOR_{field.name.upper()}")
            if text is None:
                continue
            kind = type(getattr(config, field.name))
            try:
                value = _truth(text) if kind is bool else kind(text)
            except ValueError:
                raise ValueError(
                    f"INFINITENSOR_{field.name.upper()}={text!r} is not {kind.__name__}"
                ) from None
            try:
                setattr(config, field.name, value)
            except ValueError as error:
                raise ValueError(f"INFINITENSOR_{field.name.upper()}: {error}") from None
        return config

    def key(self) -> tuple[int, int, str, str, str, int]:
        """The settings that a plan depends on."""
        return (
            self.tile_elements,
            self.inline_elements,
            self.strategy,
            self.compile,
            self.rounding,
            self.cache_bytes,
        )


def _truth(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "": False}
    words |= {"0": False, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _check(name: str, value: Any) -> Any:
    """A setting as it is kept; a ValueError that says what may be written."""
    known = Config.__dataclass_fields__
    if name not in known:
        raise AttributeError(f"there is no config.{name}; settings are {', '.join(known)}")
    default = known[name].default
    wanted = CHOICES.get(name)
    if wanted is not None and value not in wanted:
        texts = " or ".join(map(repr, wanted))
        raise ValueError(f"config.{name} = {value!r}: write {texts}")
    if type(default) is bool:
        if value not in (True, False):
            raise ValueError(f"config.{name} = {value!r}: write True or False")
        return bool(value)
    if type(default) is int:
        least = LEAST_VALUES.get(name, 0)
        is_whole = isinstance(value, float) and value.is_integer()
        if (
            isinstance(value, bool)
            or not (hasattr(value, "__index__") or is_whole)
            or value < least
        ):
            raise ValueError(f"config.{name} = {value!r}: write a whole number from {least} on")
        return int(value)
    if name == "memory" and value != "":
        parse_bytes(value, "config.memory")
    return value


def parse_bytes(value: str | float, name: str = "bytes") -> int:
    """Bytes from a number or a text with a unit.

    >>> parse_bytes("2GiB"), parse_bytes("1.5 MB"), parse_bytes(7), parse_bytes(1e9)
    (2147483648, 1500000, 7, 1000000000)
    """
    if isinstance(value, str):
        units = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
        units |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
        bare = value.strip().lower()
        number = bare.rstrip("kmgtib ")
        unit = bare[len(number) :].strip() or "b"
        if unit in units and number.replace(".", "", 1).isdigit():
            return int(float(number) * units[unit])
    elif not isinstance(value, bool):
        if hasattr(value, "__index__"):
            return operator.index(value)
        if float(value).is_integer():
            return int(value)
    raise ValueError(
        f"{name}={value!r} is not a number of bytes; write for example '2GiB' or 2147483648"
    )


config = Config.from_environment()
