"""The user and the group that sudo names."""

from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.live.privileges import who_started
from tests.support.cases import for_each


@for_each("text", ["", "x", "-1", "1e3", "4294967295", "9" * 30, "\u0661", " 1"])
def test_values_that_sudo_does_not_write_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="SUDO_UID"):
        who_started({"SUDO_UID": text, "SUDO_GID": "1"})
    with pytest.raises(UsageError, match="SUDO_GID"):
        who_started({"SUDO_UID": "1", "SUDO_GID": text})
    with pytest.raises(UsageError, match="SUDO_GID"):
        who_started({"SUDO_UID": "1"})


def test_the_user_is_the_one_who_called_sudo() -> None:
    assert who_started({}) is None
    assert who_started({"SUDO_UID": "0", "SUDO_GID": "0"}) is None
    assert who_started({"SUDO_UID": "1000", "SUDO_GID": "27"}) == (1000, 27)
