"""What those who run a program together wait by: made when it is needed, given back once."""

from __future__ import annotations

from infinitensor.runtime.native.c_team import Team


def test_a_closed_team_opens_again() -> None:
    team = Team(3)
    before = team.handle
    assert team.handle == before
    team.close()
    team.close()
    assert team.handle
    team.close()
