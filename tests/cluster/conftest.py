"""No session is left by a test."""

from tests.settings import no_session_is_left  # noqa: F401 - every test here uses it
