"""CRC32C is the same number, however it is computed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infinitensor import native
from infinitensor.storage.file_io import checksum

if TYPE_CHECKING:
    from collections.abc import Callable

VECTORS = [
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
WAYS: dict[str, Callable[[], Callable[..., None] | None]] = {
    "c": checksum.in_c,
    "python": lambda: checksum.in_python,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    found = WAYS[request.param]()
    if found is None:
        pytest.skip(f"no {request.param} here")
    monkeypatch.setattr(checksum, "_implementation", lambda: found)


@pytest.mark.usefixtures("way")
def test_published_vectors() -> None:
    for data, wanted in VECTORS:
        assert checksum.crc32c(data) == wanted
    assert checksum.crc32c(b"") == 0
    assert checksum.crc32c(b"", 7) == 7


@pytest.mark.usefixtures("way")
def test_checksum_goes_on_from_any_cut() -> None:
    data = np.random.default_rng(0).integers(0, 256, 9000, dtype=np.uint8).tobytes()
    whole = checksum.crc32c(data)
    for cut in (1, 7, 8, 1360, 4079, 4080, 4081, 8999):
        assert checksum.crc32c(data[cut:], checksum.crc32c(data[:cut])) == whole


def test_every_way_gives_the_same_number_of_every_length() -> None:
    data = np.random.default_rng(1).integers(0, 256, 20_000, dtype=np.uint8)
    ways = [way for make in WAYS.values() if (way := make()) is not None]
    for n in (1, 7, 8, 9, 63, 511, 512, 513, 4079, 4080, 4081, 8160, 12_345, 20_000):
        found = set()
        for way in ways:
            out = np.empty(-(-n // 5000), np.uint32)
            way(data[:n], 5000, 0, out)
            found.add(tuple(out.tolist()))
        assert len(found) == 1


def test_blocks_have_the_checksums_of_their_bytes() -> None:
    data = np.random.default_rng(2).integers(0, 256, 1000, dtype=np.uint8)
    wanted = [checksum.crc32c(data[i : i + 256]) for i in range(0, 1000, 256)]
    assert checksum.crc32c_blocks(data, 256).tolist() == wanted
    assert checksum.crc32c_blocks(b"", 256).tolist() == []


def test_a_processor_without_the_instruction_is_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = SimpleNamespace(has_instruction=lambda: 0)
    monkeypatch.setattr(checksum, "fixed_library", lambda file: library)
    assert checksum.in_c() is None


def test_without_c_it_is_slower_but_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_prebuilt", lambda file: None)
    monkeypatch.setattr(native, "compiler", lambda: None)
    monkeypatch.setattr(native, "_loaded", {})
    checksum._implementation.cache_clear()
    try:
        assert checksum._implementation() is checksum.in_python
        before = native.missed[0]
        assert checksum.crc32c(b"123456789") == 0xE3069283
        assert native.missed[0] == before + 1  # and counted
    finally:
        checksum._implementation.cache_clear()
