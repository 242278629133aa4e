from __future__ import annotations

import shutil

WIRESHARK = ("tshark", "capinfos", "editcap", "mergecap")
collect_ignore = [] if all(map(shutil.which, WIRESHARK)) else ["test_wireshark.py"]


def pytest_report_header() -> str:
    if collect_ignore:
        return "capinfos, editcap, mergecap: not found, test_wireshark.py is not collected"
    return "capinfos, editcap, mergecap: found, what they read is compared with what we read"
