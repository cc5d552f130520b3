"""One dataclass of settings; each is also `INFINITENSOR_<NAME>` in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

ROUNDINGS = ("numpy", "fused")


@dataclass(slots=True)
class Config:
    """What users may set. Read at each evaluation, so a change takes effect at the next one."""

    small_elements: int = 65_536
    """An op on fewer elements, all on the host, runs at once on NumPy arrays; 0: never."""
    tile_elements: int = 0
    """The largest tile, in elements; 0: each device's own default."""
    inline_elements: int = 262_144
    """A plan over fewer elements runs in the calling thread, without the workers."""
    devices: str = ""
    """What `init` takes when it is given no devices."""
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
    """Show a progress line while a plan runs (only on a terminal)."""
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
                value = text.lower() in ("1", "true", "yes") if kind is bool else kind(text)
            except ValueError:
                raise ValueError(
                    f"INFINITENSOR_{field.name.upper()}={text!r} is not {kind.__name__}"
                ) from None
            setattr(config, field.name, value)
        return config

    def key(self) -> tuple[int, int, str, str, str, int]:
        """What a plan depends on."""
        if self.rounding not in ROUNDINGS:
            raise ValueError(f"config.rounding is {self.rounding!r}, not one of {ROUNDINGS}")
        return (
            self.tile_elements,
            self.inline_elements,
            self.strategy,
            self.compile,
            self.rounding,
            self.cache_bytes,
        )


config = Config.from_environment()


def parse_bytes(text: str | int) -> int:
    """Bytes from a number or a text with a unit.

    >>> parse_bytes("2GiB"), parse_bytes("1.5 MB"), parse_bytes(7)
    (2147483648, 1500000, 7)
    """
    if isinstance(text, int):
        return text
    units = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
    units |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
    bare = text.strip().lower()
    number = bare.rstrip("kmgtib ")
    unit = bare[len(number) :].strip() or "b"
    if unit not in units or not number.replace(".", "", 1).isdigit():
        raise ValueError(f"{text!r} is no byte count; write for example '2GiB' or 2147483648")
    return int(float(number) * units[unit])
