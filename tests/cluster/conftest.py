"""Settings are put back after each test."""

from tests.settings import settings_are_put_back  # noqa: F401 - every test here uses it
