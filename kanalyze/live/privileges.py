"""Root, given up: what comes over the network is read by whoever asked for it, not by root.

In: what sudo says of who started it. Out: a process that is that user's. This module must not know
what root was needed for.

On Linux two rights may stay, of all that root has: to capture (CAP_NET_RAW), for an interface that
goes away and comes back is opened anew; and to read files (CAP_DAC_READ_SEARCH), where the user
cannot read the program itself, of which parts are loaded when they are needed.
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

__all__ = ["give_up_root", "who_started"]

_KEEP_CAPABILITIES: Final = 8
"""PR_SET_KEEPCAPS of prctl(2)."""
_CAPABILITY_VERSION: Final = 0x20080522
_READ_SEARCH: Final = 1 << 2
_NET_RAW: Final = 1 << 13
_LARGEST_ID: Final = (1 << 32) - 2
_PROGRAM: Final = (kanalyze.__file__, np.__file__, os.__file__)
"""Files of it, of the packages that it needs, and of Python."""


def who_started(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the user and the group that sudo was called by; None for root itself, or no sudo.

    Raises UsageError for what sudo does not write.
    """
    names = ("SUDO_UID", "SUDO_GID")
    if names[0] not in environment:
        return None
    user, group = (_number(name, environment.get(name, "")) for name in names)
    return (user, group) if user else None


def give_up_root(*, may_capture: bool) -> str | None:
    """Become who called sudo, with no other group, if this is root by sudo; else do nothing.

    To be called before there are threads and files. ``may_capture`` keeps the right to. Returns a
    line for people, if there is anything to tell. Raises UsageError and OSError, after which the
    process is neither: it has to end.
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
        f"user {user}, who called sudo, cannot read {unreadable[0]}: the right to read files stays"
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
    """Let go of all capabilities but some, which are among the first 32 (capset(2))."""
    sets = (_Sets * 2)(_Sets(capabilities, capabilities, 0), _Sets(0, 0, 0))
    _call("capset", ctypes.byref(_Header(_CAPABILITY_VERSION, 0)), ctypes.byref(sets))


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot give up root: {name}: {os.strerror(number)}")
