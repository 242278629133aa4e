"""Which tests of TLS need a program that may not be installed."""

from __future__ import annotations

import shutil

collect_ignore_glob = [] if shutil.which("tshark") else ["*_tshark.py"]
