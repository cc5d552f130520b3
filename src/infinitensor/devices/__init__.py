"""Where kernels run: CPU and CUDA through PyTorch, and `null`, which does everything but them."""

from infinitensor.devices.copy import copy_into, read, to_host
from infinitensor.devices.device import Device, host_free_bytes, open_devices
from infinitensor.devices.ledger import Buffer, Ledger
from infinitensor.devices.pinned import PinnedDevice
from infinitensor.devices.tools import find_tools

__all__ = [
    "Buffer",
    "Device",
    "Ledger",
    "PinnedDevice",
    "copy_into",
    "find_tools",
    "host_free_bytes",
    "open_devices",
    "read",
    "to_host",
]
