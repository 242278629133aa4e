"""The page of a report in the frame of a notebook: it is drawn, and selections work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kanalyze
from tests.support.browser import browser_page
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

IS_DRAWN = """(() => {
    const inside = document.querySelector("iframe").contentDocument;
    return inside?.querySelector("#controls select")?.length > 1;
})()"""
SELECTED = """(() => {
    const inside = document.querySelector("iframe").contentDocument;
    const control = inside.querySelector("#controls select");
    control.selectedIndex = 1;
    control.dispatchEvent(new Event("change"));
    return inside.querySelectorAll("select.set").length;
})()"""


def test_the_page_works_in_a_frame_and_asks_for_nothing(tmp_path: Path) -> None:
    shown = kanalyze.report(path("basics"))._repr_html_()
    notebook = tmp_path / "notebook.html"
    with browser_page() as page:
        notebook.write_text(f"<!doctype html>{shown}", encoding="utf-8")
        page.open(notebook)
        # Without the sandbox, this test can look inside.
        inner = shown.replace('sandbox="allow-scripts" ', "")
        notebook.write_text(f"<!doctype html>{inner}", encoding="utf-8")
        page.open(notebook)
        page.wait_for(IS_DRAWN)  # the frame may be loaded after the page
        assert page.run(SELECTED) == 1
        assert page.console == []
        assert set(page.asked_for) == {notebook.as_uri()}
