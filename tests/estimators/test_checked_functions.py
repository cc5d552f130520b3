"""Functions like scikit-learn's: its checks and texts, and points wherever they are."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sklearn
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_params

import infinitensor as it
from infinitensor.estimators.checked_functions import like

if TYPE_CHECKING:
    from pathlib import Path


@validate_params(  # type: ignore[untyped-decorator]
    {"X": ["array-like"], "k": [Interval(Integral, 1, None, closed="left")], "name": [str]},
    prefer_skip_nested_validation=True,
)
def their(X: Any, k: int = 1, *, name: str = "x") -> None:
    """What scikit-learn's function says of itself."""


@like(their, "X")
def ours(X: Any, k: int = 1, *, name: str = "x") -> Any:
    """What ours says of itself."""
    return X, k, name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    return tmp_path / "x.npy"


@pytest.mark.parametrize("given", [{"k": 0}, {"k": 1.5}, {"name": 3}], ids=str)
def test_parameters_are_refused_with_scikit_learns_text(given: Any) -> None:
    with pytest.raises(InvalidParameterError, match="must be") as wanted:
        their([[1.0]], **given)
    with pytest.raises(InvalidParameterError, match="must be") as found:
        ours([[1.0]], **given)
    assert str(found.value) == str(wanted.value).replace("their", "ours")


def test_path_of_points_is_opened_by_place_and_by_name(path: Path) -> None:
    for X, k, name in (ours(str(path), 2), ours(X=path, k=2), ours(path, name="x", k=2)):
        assert isinstance(X, it.Tensor)
        assert X.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
        assert (k, name) == (2, "x")


def test_what_is_on_the_host_and_other_parameters_stay_as_they_are(path: Path) -> None:
    X = np.ones((2, 2))
    found, _, name = ours(X, name=str(path))
    assert found is X
    assert name == str(path)


def test_wrong_call_is_pythons_error_and_the_function_says_what_it_is() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        ours([[1.0]], 1, "x")
    with pytest.raises(TypeError, match="missing a required argument: 'X'"):
        ours()
    assert (ours.__name__, ours.__doc__) == ("ours", "What ours says of itself.")


@pytest.mark.parametrize("asks", [True, False])
def test_estimator_that_is_asked_checks_its_own_parameters(asks: bool) -> None:
    @like(their, "X", asks=asks)
    def checked(X: Any) -> Any:
        return sklearn.get_config()["skip_parameter_validation"]

    assert checked([[1.0]]) is not asks
    assert sklearn.get_config()["skip_parameter_validation"] is False
