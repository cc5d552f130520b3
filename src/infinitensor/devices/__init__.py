"""Where kernels run: CPU and CUDA through PyTorch, and `null`, which does everything but them."""

from infinitensor.devices.copy import copy_into, read
from infinitensor.devices.device import Device, open_devices
from infinitensor.devices.ledger import Buffer, Ledger

__all__ = ["Buffer", "Device", "Ledger", "copy_into", "open_devices", "read"]
