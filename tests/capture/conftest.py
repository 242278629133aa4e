from __future__ import annotations

import shutil
import sys

WIRESHARK = ("tshark", "capinfos", "editcap", "mergecap")
collect_ignore = [] if all(map(shutil.which, WIRESHARK)) else ["test_wireshark.py"]
if sys.platform != "linux":
    # The kernel they are applied by is Linux.
    collect_ignore += ["test_live_filter.py", "test_interfaces.py"]


def pytest_report_header() -> str:
    if "test_wireshark.py" in collect_ignore:
        return "capinfos, editcap, mergecap: not found, test_wireshark.py is not collected"
    return "capinfos, editcap, mergecap: found, what they read is compared with what we read"
