"""Programs with fewer rights than the tests. Needs Linux, root, and ``setpriv``."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

_NOBODY = "65534"


@functools.cache
def can_be_given_up() -> bool:
    """Try whether a program can be started with fewer rights here."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    return subprocess.run([*ordinary_user("net_raw"), "true"], check=False).returncode == 0


def ordinary_user(*capabilities: str) -> list[str]:
    """The words before a command that run it as an ordinary user, with some capabilities.

    Interpreter, packages and checkout may lie in a folder that is closed to others, as homes are.
    So the user may read all files, which does not affect other rights.
    """
    all_of_them = "".join(f",+{name}" for name in ("dac_override", *capabilities))
    kinds = ("inh-caps", "ambient-caps", "bounding-set")
    return [
        *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
        *(f"--{kind}=-all{all_of_them}" for kind in kinds),
    ]
