"""Names beside the addresses of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.queries.report_names import add_names, with_names
from kanalyze.tables.names import AddressNames, NamedAddress
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE = str(path("groups"))
KNOWN = {
    "10.0.0.1": {"name": "web-1", "app": "web", "zone": None},
    "10.0.0.2": {"name": None, "app": "shop", "zone": "east"},
    "10.0.0.3": {"name": None, "app": None, "zone": "east"},
    "2001:db8::1": {"name": "six", "app": None, "zone": None},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", "web-1 (10.0.0.1)"),
        ("10.0.0.1:9092", "web-1 (10.0.0.1:9092)"),
        ("[2001:db8::1]:9092", "six ([2001:db8::1]:9092)"),
        ("2001:db8::1", "six (2001:db8::1)"),
        ("10.0.0.2 sent 3 to 10.0.0.1:9092.", "shop (10.0.0.2) sent 3 to web-1 (10.0.0.1:9092)."),
        ("10.0.0.1:5>10.0.0.2:9092", "web-1 (10.0.0.1:5)>shop (10.0.0.2:9092)"),
        *((text, text) for text in ("10.0.0.3", "10.0.0.11", "110.0.0.1", "v10.0.0.1", "09:30:00")),
        ("10.0.0.1.example.org", "10.0.0.1.example.org"),
    ],
)
def test_an_address_is_shown_with_its_name(text: str, expected: str) -> None:
    assert with_names({"broker": text, "topic": text}, KNOWN) == {
        "broker": expected,
        "topic": text,
    }


def test_an_address_has_the_name_that_it_has_at_the_end_or_had_before() -> None:
    names = AddressNames(
        [
            NamedAddress("10.0.0.1", "old", until_ns=50),
            NamedAddress("10.0.0.1", "new", since_ns=50),
            NamedAddress("10.0.0.2", "gone", until_ns=50),
            NamedAddress("10.0.0.3", "never", until_ns=5),
        ]
    )
    report: dict[str, Any] = {
        "capture": {"first_time_ns": 10, "last_time_ns": 90},
        "clients": [{"client_ips": ["10.0.0.1", "10.0.0.2", "10.0.0.3"]}],
    }
    add_names(report, names)
    assert {ip: each["name"] for ip, each in report["names"].items()} == {
        "10.0.0.1": "new",
        "10.0.0.2": "gone",
    }


def test_a_report_has_names_beside_addresses_and_json_has_them_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 loop<b>back\n")
    plain, named = kanalyze.report(CAPTURE), kanalyze.report(CAPTURE, names=str(file))
    assert named.pop("names") == {"127.0.0.1": {"name": "loop<b>back", "app": None, "zone": None}}
    assert named == plain
    page = tmp_path / "page.html"
    words = ["--sections", "brokers", "--utc"]
    for form in ("text", "md"):
        assert main(["report", CAPTURE, "--names", str(file), "--format", form, *words]) == 0
        assert "back (127.0.0.1:9092)" in capsys.readouterr().out.replace("\\", "")
    assert main(["report", CAPTURE, "--names", str(file), "--html", str(page)]) == 0
    assert "loop<b>back" not in page.read_text()
