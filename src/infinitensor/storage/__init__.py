"""Arrays in files: user's files, read and written box by box, and tiles that were spilled."""

from infinitensor.storage.formats.file_formats import Writer, format_of, open_stored
from infinitensor.storage.formats.memory_map import file_of_map
from infinitensor.storage.formats.npy import NpyFile, NpyWriter
from infinitensor.storage.formats.picked_elements import Picked
from infinitensor.storage.formats.stored_array import File, Part, Points, Stored
from infinitensor.storage.formats.zarr import ZarrFile, ZarrWriter
from infinitensor.storage.spilled.spill import Spill
from infinitensor.storage.spilled.spill_folder import is_memory
from infinitensor.storage.spilled.spilled_tile import Spilled
from infinitensor.storage.spilled.tile_files import Joined

__all__ = [
    "File",
    "Joined",
    "NpyFile",
    "NpyWriter",
    "Part",
    "Picked",
    "Points",
    "Spill",
    "Spilled",
    "Stored",
    "Writer",
    "ZarrFile",
    "ZarrWriter",
    "file_of_map",
    "format_of",
    "is_memory",
    "open_stored",
]
