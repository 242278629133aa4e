"""``kanalyze live --list``."""

from __future__ import annotations

import sys

from kanalyze.capture.live.interfaces import interfaces
from kanalyze.common.escaping import escape

__all__ = ["list_interfaces"]


def list_interfaces() -> None:
    """Write a line for each interface; raises CaptureError and OSError."""
    for each in interfaces():
        state = "up" if each.is_up else "down"
        # A name may hold any character but a few.
        text = f"{escape(each.name):16} {state:5} {each.description}  {' '.join(each.addresses)}"
        sys.stdout.write(text.rstrip() + "\n")
