"""Settings: a value that means nothing is refused where it is written."""

from __future__ import annotations

from typing import Any

import pytest

import infinitensor as it
from infinitensor.config import Config


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "compile",
            "sometimes",
            "config.compile = 'sometimes': write 'auto' or 'always' or 'never'",
        ),
        ("rounding", "up", "write 'numpy' or 'fused'"),
        ("strategy", "best", "write 'auto'"),
        ("tile_elements", -1, "config.tile_elements = -1: write a whole number from 0 on"),
        ("small_elements", "many", "write a whole number from 0 on"),
        ("inline_elements", 1.5, "write a whole number from 0 on"),
        ("workers", True, "write a whole number from 0 on"),
        ("plan_cache", 0, "write a whole number from 1 on"),
        ("cache_bytes", -2, "write a whole number from -1 on"),
        ("progress", "yes", "config.progress = 'yes': write True or False"),
        ("memory", "2 kk", "config.memory='2 kk' is not a number of bytes"),
    ],
)
def test_value_that_means_nothing_is_refused(name: str, value: Any, text: str) -> None:
    before = getattr(it.config, name)
    with pytest.raises(ValueError, match=text):
        setattr(it.config, name, value)
    assert getattr(it.config, name) == before


def test_setting_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"there is no config\.compiel; settings are small_el"):
        it.config.compiel = "auto"


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("COMPILE", "sometimes", "INFINITENSOR_COMPILE: config.compile = 'sometimes': write"),
        ("WORKERS", "two", "INFINITENSOR_WORKERS='two' is not int"),
        ("WORKERS", "-2", "INFINITENSOR_WORKERS: config.workers = -2: write a whole number"),
        ("PROGRESS", "maybe", "INFINITENSOR_PROGRESS='maybe' is not bool"),
    ],
)
def test_variable_that_means_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, error: str
) -> None:
    monkeypatch.setenv(f"INFINITENSOR_{name}", text)
    with pytest.raises(ValueError, match=error):
        Config.from_environment()


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFINITENSOR_PROGRESS", "on")
    monkeypatch.setenv("INFINITENSOR_TILE_ELEMENTS", "7")
    found = Config.from_environment()
    assert found.progress is True
    assert found.tile_elements == 7
