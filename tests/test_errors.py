"""What the system says of an error."""

from __future__ import annotations

import errno
import os

from kanalyze.errors import reason_of


def test_the_reason_has_neither_a_number_nor_a_file() -> None:
    error = OSError(errno.ENOENT, os.strerror(errno.ENOENT), "a.pcap")
    assert reason_of(error) == os.strerror(errno.ENOENT)


def test_an_error_of_other_kinds_gives_its_text_or_its_kind() -> None:
    assert reason_of(ValueError("embedded null byte")) == "embedded null byte"
    assert reason_of(OSError("closed")) == "closed"
    assert reason_of(OSError()) == "OSError"
