"""What a compressed file unpacks to is known before memory is taken for it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infinitensor.storage.formats import chunk_size
from infinitensor.storage.formats.chunk_size import COMPRESSORS, UNPACKERS, unpacks_beyond

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "lzma": lzma.compress,
}
RANDOM = np.random.default_rng(5).integers(0, 256, 3000, dtype=np.uint8).tobytes()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some KiB are read and unpacked in several pieces."""
    monkeypatch.setattr(chunk_size, "READ_PIECE_BYTES", 700)


def saved(folder: Path, packed: bytes) -> str:
    (folder / "chunk").write_bytes(packed)
    return str(folder / "chunk")


@pytest.mark.parametrize("codec", PACKERS)
@pytest.mark.parametrize("values", [bytes(100_000), RANDOM, b"x", b""], ids=len)
def test_answer_changes_at_the_length_of_the_values(
    tmp_path: Path, codec: str, values: bytes
) -> None:
    path = saved(tmp_path, PACKERS[codec](values))
    assert not unpacks_beyond(path, codec, len(values))
    assert not unpacks_beyond(path, codec, len(values) + 1)
    if values:
        assert unpacks_beyond(path, codec, len(values) - 1)


@pytest.mark.parametrize("codec", ["gzip", "bz2", "lzma"])
def test_members_one_after_another_count_together(tmp_path: Path, codec: str) -> None:
    path = saved(tmp_path, 3 * PACKERS[codec](RANDOM))
    assert unpacks_beyond(path, codec, 3 * len(RANDOM) - 1)
    assert not unpacks_beyond(path, codec, 3 * len(RANDOM))


@pytest.mark.parametrize("codec", sorted(COMPRESSORS))
@pytest.mark.parametrize("packed", [b"", b"\x28", b"no such file, of any codec at all" * 90])
def test_broken_file_is_left_to_its_codec(tmp_path: Path, codec: str, packed: bytes) -> None:
    limit = 1 << 40  # blosc and lz4 have no mark by which to know them: any bytes say a length
    assert not unpacks_beyond(saved(tmp_path, packed), codec, limit)


@pytest.mark.parametrize("codec", UNPACKERS)
def test_file_cut_short_is_what_is_there(tmp_path: Path, codec: str) -> None:
    path = saved(tmp_path, PACKERS[codec](RANDOM)[:-40])
    assert not unpacks_beyond(path, codec, len(RANDOM))


@pytest.mark.parametrize("codec", ["blosc", "lz4", "zstd"])
@pytest.mark.parametrize("n_bytes", [1, 255, 256, 300, 65_535, 65_792, 100_000])
def test_length_that_a_packed_file_states_is_read(tmp_path: Path, codec: str, n_bytes: int) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    packer = {"blosc": numcodecs.Blosc, "lz4": numcodecs.LZ4, "zstd": numcodecs.Zstd}[codec]()
    path = saved(tmp_path, bytes(packer.encode(bytes(n_bytes))))
    assert unpacks_beyond(path, codec, n_bytes - 1)
    assert not unpacks_beyond(path, codec, n_bytes)
