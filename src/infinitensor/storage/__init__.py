"""Arrays in files: user's files, read and written box by box, and tiles that were spilled."""

from infinitensor.storage.folder import is_memory
from infinitensor.storage.formats import Writer, format_of, open_stored, open_writer
from infinitensor.storage.joined import Joined
from infinitensor.storage.mapped import mapped
from infinitensor.storage.npy import NpyFile, NpyWriter
from infinitensor.storage.picked import Picked
from infinitensor.storage.spill import Spill
from infinitensor.storage.stored import File, Part, Stored
from infinitensor.storage.tile import Spilled
from infinitensor.storage.zarr import ZarrFile, ZarrWriter

__all__ = [
    "File",
    "Joined",
    "NpyFile",
    "NpyWriter",
    "Part",
    "Picked",
    "Spill",
    "Spilled",
    "Stored",
    "Writer",
    "ZarrFile",
    "ZarrWriter",
    "format_of",
    "is_memory",
    "mapped",
    "open_stored",
    "open_writer",
]
