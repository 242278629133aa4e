"""Makes the pictures of README.md: the head of a report in a terminal, and of its page.

    python -m tools.pictures [--check]

The terminal is an SVG by rich, always the same for the same report; --check exits with 1 if it
would change. The page is a screenshot by Chromium, which is not the same on every machine.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import kanalyze
from kanalyze.render.terminal import render_report
from tools.docs_pages import DOCS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = DOCS / "pictures"
CAPTURE = "captures/fault-network.pcap"
PAGE = "reports/fault-network.html"
WIDTH = 100
END = "Latency by topic"
"""The first line that is not in the picture contains this."""
PAGE_SIZE = (1100, 780)
MAX_BYTES = 200_000


def terminal_svg() -> str:
    """Return the head of a report as SVG."""
    out = io.StringIO()
    terminal = Console(
        file=out, width=WIDTH, force_terminal=True, color_system="truecolor", markup=False
    )
    # Where lines are broken must not depend on where the clone lies.
    with contextlib.chdir(ROOT):
        render_report(kanalyze.report(CAPTURE), terminal)
    shown: list[str] = []
    for line in out.getvalue().splitlines():
        if END in line:
            break
        shown.append(line)
    recorder = Console(file=io.StringIO(), width=WIDTH, record=True, color_system="truecolor")
    recorder.print(Text.from_ansi("\n".join(shown).rstrip()))
    svg = recorder.export_svg(title=f"kanalyze report {CAPTURE}", unique_id="kanalyze")
    # Without fonts from another host; the next best of the list is in place.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def page_png(file: Path) -> None:
    """Write a screenshot of the page's head."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                f"--user-data-dir={profile}",
                f"--window-size={PAGE_SIZE[0]},{PAGE_SIZE[1]}",
                f"--screenshot={file}",
                (ROOT / PAGE).as_uri(),
            ],
            check=True,
            capture_output=True,
        )


def main() -> int:
    """Write the pictures, or say whether that of the terminal would change."""
    svg, file = terminal_svg(), PICTURES / "report.svg"
    if "--check" in sys.argv[1:]:
        return int(file.read_text(encoding="utf-8") != svg)
    PICTURES.mkdir(exist_ok=True)
    file.write_text(svg, encoding="utf-8")
    page_png(PICTURES / "page.png")
    for picture in sorted(PICTURES.iterdir()):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
