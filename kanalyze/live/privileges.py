"""Drops root privileges: packets are analyzed as the user who called sudo.

In: the environment that sudo sets. Out: a process of that user.

On Linux up to two capabilities are kept. CAP_NET_RAW, to capture: an interface that was removed and
comes back is opened again. CAP_DAC_READ_SEARCH, to read files, only if the user cannot read the
program itself: it loads modules later.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

import kanalyze
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEEP_CAPABILITIES: Final = 8
"""PR_SET_KEEPCAPS of prctl(2)."""
_CAPABILITY_VERSION: Final = 0x20080522
_READ_SEARCH: Final = 1 << 2
_NET_RAW: Final = 1 << 13
_LARGEST_ID: Final = (1 << 32) - 2
_PROGRAM: Final = (kanalyze.__file__, np.__file__, os.__file__)
"""A file of kanalyze, one of its dependencies, and one of Python."""


def who_started(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the user and the group that called sudo; None for root, or without sudo.

    Raises UsageError for values that sudo does not write.
    """
    names = ("SUDO_UID", "SUDO_GID")
    if names[0] not in environment:
        return None
    user, group = (_number(name, environment.get(name, "")) for name in names)
    return (user, group) if user else None


def give_up_root(*, may_capture: bool) -> str | None:
    """Become the user who called sudo, without supplementary groups; do nothing without sudo.

    Call it before there are threads and files. ``may_capture`` keeps the capability to capture.
    Returns a message for the user, or None. After UsageError or OSError the process has to end.
    """
    started = who_started(os.environ) if hasattr(os, "geteuid") and os.geteuid() == 0 else None
    if started is None:
        return None
    user, group = started
    is_linux = sys.platform == "linux"
    if is_linux:
        _call("prctl", _KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(group)
    os.seteuid(user)
    unreadable = [file for file in _PROGRAM if not _is_readable(file)]
    os.seteuid(0)
    os.setuid(user)
    if is_linux:
        _keep_only((_NET_RAW if may_capture else 0) | (_READ_SEARCH if unreadable else 0))
    if not unreadable:
        return None
    return (
        f"user {user}, who called sudo, cannot read {unreadable[0]}: kanalyze keeps the right to "
        "read all files"
    )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST_ID):
        raise UsageError(f"{name}: not the number that sudo writes: {text!r}")
    return int(text)


def _is_readable(file: str | None) -> bool:
    try:
        Path(file or "").open("rb").close()
    except OSError:
        return False
    return True


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def _keep_only(capabilities: int) -> None:
    """Drop all capabilities except some of the first 32 (capset(2))."""
    sets = (_Sets * 2)(_Sets(capabilities, capabilities, 0), _Sets(0, 0, 0))
    _call("capset", ctypes.byref(_Header(_CAPABILITY_VERSION, 0)), ctypes.byref(sets))


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot give up root: {name}: {os.strerror(number)}")
