"""What pytest is to know before it collects the tests of the packet layer."""

from __future__ import annotations

import shutil

# The oracle is a program of its own; where it is not installed there is nothing to ask.
collect_ignore_glob = [] if shutil.which("tshark") else ["*_tshark.py"]
