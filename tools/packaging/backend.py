"""The build backend: setuptools', with a C compiler from PyPI where the machine has none.

In: the calls of PEP 517 and PEP 660. Out: what setuptools makes of them.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_MACHINES = ("x86_64", "aarch64", "arm64")
"""Those that ziglang is surely on PyPI for."""

_Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    """Return what a build needs besides setuptools and Cython: a compiler, if there is none."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler()]


def get_requires_for_build_editable(config_settings: _Settings = None) -> list[str]:
    """As :func:`get_requires_for_build_wheel`, for an installation that points to the sources."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler()]


def build_wheel(
    wheel_directory: str,
    config_settings: _Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel; return its file's name."""
    _use_compiler()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: _Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Compile in the sources' own folders, and build a wheel that points to them."""
    _use_compiler()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def _has_compiler() -> bool:
    """Return true if the compiler that Python would call is there."""
    if sys.platform == "win32":
        return True  # setuptools looks for it in the registry, and says what to install
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(shlex.split(command)[0]) is not None


def _compiler() -> list[str]:
    """Return what to install for a compiler, where one is wanted and can be had."""
    is_pure = os.environ.get("KANALYZE_PURE") == "1"
    # A requirement that there is no wheel of would be the end of the installation.
    is_offered = sys.platform in ("linux", "darwin") and platform.machine() in _MACHINES
    return [] if is_pure or _has_compiler() or not is_offered else ["ziglang>=0.13"]


def _use_compiler() -> None:
    """Let setuptools call the compiler that was asked for above, where it was."""
    if _has_compiler() or find_spec("ziglang") is None:
        return
    # It compiles for this machine's own processor unless told otherwise, and a wheel travels.
    command = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
    os.environ["CC"] = command
    os.environ["LDSHARED"] = f"{command} -shared"
