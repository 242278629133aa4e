"""What pytest is to know before it collects."""

from __future__ import annotations

import os
import shutil

from hypothesis import settings

# No test is about speed, and a busy machine is no failure. The landing check tries the same
# examples each time: a new one that fails is news for whoever runs the tests, not for an
# unrelated change.
settings.register_profile("everyone", deadline=None)
settings.register_profile("landing", deadline=None, derandomize=True)
settings.load_profile("landing" if os.environ.get("CI") else "everyone")

# The oracle is a program of its own; where it is not installed there is nothing to ask.
HAS_TSHARK = shutil.which("tshark") is not None
collect_ignore_glob = [] if HAS_TSHARK else ["*_tshark.py"]


def pytest_report_header() -> str:
    """Say what is left out, so that a run without the oracle does not look like one with it."""
    if HAS_TSHARK:
        return "tshark: found, its answers are compared with ours"
    return "tshark: not found, no test_*_tshark.py and no test_tshark.py is collected"
