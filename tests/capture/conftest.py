from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from kanalyze.capture import merge, reader
from kanalyze.capture.formats import pcap, pcapng
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator

WIRESHARK = ("tshark", "capinfos", "editcap", "mergecap")
collect_ignore = [] if all(map(shutil.which, WIRESHARK)) else ["test_wireshark.py"]
if sys.platform != "linux":
    # Only Linux has the kernel interfaces that these test.
    collect_ignore += ["live/test_kernel_filter.py", "live/test_interfaces.py"]


def pytest_report_header() -> str:
    if "test_wireshark.py" in collect_ignore:
        return "capinfos, editcap, mergecap: not found, test_wireshark.py is not collected"
    return "capinfos, editcap, mergecap: found, their output is compared with ours"


_SCANNED_BY = {
    "kanalyze.capture.formats.packet_scan": (pcap, pcapng),
    "kanalyze.common.int_columns": (merge, reader),
}


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def scan(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let captures be read by compiled modules, and then by the same modules uncompiled."""
    if request.param == "compiled":
        yield
        return
    with uncompiled() as modules:
        pass
    with pytest.MonkeyPatch.context() as patch:
        for name, users in _SCANNED_BY.items():
            plain = modules[name]
            for user in users:
                for shared, value in vars(plain).items():
                    is_own = getattr(value, "__module__", None) == plain.__name__
                    if is_own and shared in vars(user):
                        patch.setattr(user, shared, value)
        yield
