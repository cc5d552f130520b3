"""Every partner is met in a strict session and in the default one."""

from __future__ import annotations

from tests.faithful.conftest import strict_or_default

__all__ = ["strict_or_default"]
