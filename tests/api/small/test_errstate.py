"""Settings of floating-point errors: what changes nothing is taken, the rest refused."""

from __future__ import annotations

import numpy as np
import pytest

import infinitensor as it

pytestmark = pytest.mark.usefixtures("at_once_and_in_tiles")


def test_errstate_takes_what_changes_nothing_and_refuses_the_rest() -> None:
    before = it.geterr()
    with it.errstate(all="warn", over="ignore"):
        assert it.geterr() == {**dict.fromkeys(before, "warn"), "over": "ignore"}
        assert np.isinf((1 / it.asarray([0.0])).numpy()).all()
    assert it.geterr() == before

    @it.errstate(divide="ignore")
    def quotient() -> float:
        return float(1 / it.asarray(0.0))

    assert quotient() == np.inf
    for word in ("raise", "call", "print", "log"):
        with pytest.raises(ValueError, match="floating-point errors are not noticed"):
            it.errstate(invalid=word)
        with pytest.raises(ValueError, match="floating-point errors are not noticed"):
            it.seterr(all=word)
    with pytest.raises(ValueError, match="'ignore' or 'warn' is meant"):
        it.seterr(all="loud")
    assert it.seterr(all="ignore") == before
