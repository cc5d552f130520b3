"""Programs of few kernels on a GPU, whose time is mostly the host's: `bench_survey --listed`.

What a library's own function makes in one call, with the sizes at which ours took longer than torch
in some survey. `python -m benchmarks.bench_survey --device cuda --listed --peers torch --turns 3
--worst 0` takes about a minute.
"""

from __future__ import annotations

from benchmarks.survey_programs import Operand, Program

LISTED = -1
"""The seed of these."""


def _one(line: str, *operands: Operand) -> Program:
    names = "abcdefgh"[: len(operands)]
    kind = line.removeprefix("return ").split("(")[0].removeprefix("xp.").strip("_ ")[:20]
    head = f"def program(xp, {', '.join(names)}):\n"
    return Program(f"listed: {kind}", f"{head}    return {line}\n", operands)


def _index(n: int, high: int, *more: int) -> Operand:
    return Operand((n, *more), "int64", "integers", high)


def _floats(*shape: int, dtype: str = "float32") -> Operand:
    return Operand(shape, dtype)


def listed() -> tuple[Program, ...]:
    """The programs, by their numbers."""
    line, rows = _floats(600_000), _floats(15_192, 38)
    table, wide = _floats(869, 12), _floats(246_723, 34)
    half, places = _floats(1 << 20, dtype="float16"), _index(52_459, 1 << 20)
    return (
        _one("a + b", line, line),
        _one("a + b, a * b", line, line),
        _one("xp.histogram(a, 4096, -4.0, 4.0)", _floats(1 << 18)),
        _one("xp.histogram(a, 100, -4.0, 4.0)", line),
        _one("xp.bincount(a, 17, b)", _index(4096, 17), _floats(4096)),
        _one("xp.bincount(a, 13000)", _index(750_403, 13_000)),
        _one("xp.bincount(a, 17)", _index(750_403, 17)),
        _one("xp.cumsum(a, axis=-1)", Operand((15_192, 38), "int64", "integers", 100)),
        _one("xp.cumsum(a, axis=0)", line),
        _one("xp.cumsum(a * a, axis=-1) * 0.5", rows),
        _one("xp.sort(a, axis=-1)", rows),
        _one("xp.sort(a, axis=0)", line),
        _one("xp.argsort(a, axis=-1)", rows),
        _one("xp.median(a, axis=-1)", rows),
        _one("xp.quantile(a, 0.9, axis=-1)", rows),
        _one("xp.quantile(a, 0.9, axis=0)", line),
        _one("xp.unique(a)", Operand((100_000,), "int64", "integers", 1000)),
        _one("xp.searchsorted(xp.sort(a), b)", _floats(50_000), _floats(25_000)),
        _one("xp.take_along(a, b)", _floats(116_508, 36), _index(116_508, 36, 1)),
        _one("a[b]", _floats(1 << 20), places),
        _one("a[b]", half, places),
        _one("a[b] * 2 + 1", _floats(1 << 20), places),
        _one("xp.sum(a[b], axis=0)", table, _index(170, 869)),
        _one("xp.sum(a[b] * c, axis=-1)", table, _index(170, 869), _floats(12)),
        _one("xp.add_at(a, b, c)", _floats(1 << 20), places, _floats(52_459)),
        _one("xp.add_at(a, b, c)", table, _index(170, 869), _floats(170, 12)),
        _one("a[a > 0.5]", _floats(100_000)),
        _one("xp.concatenate([a, b], axis=0)", wide, wide),
        _one("xp.concatenate([a, b], axis=1)", wide, wide),
        _one("xp.concatenate([a * 2, b + 1], axis=0)", rows, rows),
        _one("xp.stack([a, b * 2], axis=-1)", rows, rows),
        _one("xp.roll(a, 3, axis=0) + b", wide, wide),
        _one("xp.reshape(a, (-1,)) * 2 + xp.reshape(b, (-1,))", rows, rows),
        _one("xp.fft.fft(a)", _floats(2050, dtype="complex64")),
        _one("xp.fft.rfft(a)", _floats(6210)),
        _one("xp.fft.irfft(xp.fft.rfft(a) * xp.fft.rfft(b), a.shape[0])", *[_floats(6210)] * 2),
        _one('xp.einsum("bij,bjk->bk", a, b)', _floats(32, 1024, 2048), _floats(32, 2048, 2)),
        _one('xp.einsum("bij,bkj->bik", a, b)', _floats(32, 64, 48), _floats(32, 64, 48)),
        _one(
            "xp.argmin(xp.sum((a[:, None, :8] - b[None, :16, :8]) ** 2, axis=2), axis=1)",
            *[_floats(256, 32, dtype="float64")] * 2,
        ),
        _one(
            "xp.argmin(xp.sum(a * a, axis=1)[:, None] - 2 * (a @ b.T) + xp.sum(b * b, axis=1),"
            " axis=1)",
            _floats(100_000, 18),
            _floats(64, 18),
        ),
        _one("xp.all(xp.isfinite(a), axis=0)", _floats(1 << 23)),
        _one("xp.var(a, axis=None)", _floats(1294, 1295, dtype="bfloat16")),
        _one(
            "(a * 0.5 + 1) @ b", *(_floats(*s, dtype="bfloat16") for s in ((65_536, 5), (5, 1024)))
        ),
    )
