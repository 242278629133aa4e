"""Which tests of TLS ask a program that may not be there."""

from __future__ import annotations

import shutil

collect_ignore_glob = [] if shutil.which("tshark") else ["*_tshark.py"]
