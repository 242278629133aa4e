"""The names of the addresses in a report or a comparison, and the addresses with them for people.

In: a report or a comparison as plain values, names of addresses. Out: the names, by address; the
same report with ``checkout-7 (10.2.3.4:51234)`` where people read an address. As JSON a report
keeps addresses as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kanalyze.common.texts import escape
from kanalyze.model.tcp import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kanalyze.tables.names import AddressNames

_FIELDS = frozenset(("client_ips", "client_ip", "broker", "connection", "what"))
_BROKER = "broker"
"""Fields whose texts are addresses, or have some in them."""
_ADDRESS = re.compile(
    r"(?<![\w.:\[])(?:(\d+\.\d+\.\d+\.\d+)|\[([\da-f:.]+)\]|([\da-f]*:[\da-f:.]*[\da-f:]))"
    r"(?::\d+)?(?!\.?\w)"
)
"""An address, or an end of a connection; also what only looks like an address of IPv6."""


def add_names(
    report: dict[str, Any], names: AddressNames | None, time_ns: int | None = None
) -> None:
    """Add ``names``: what is known of the addresses in a report, or comparison, at its end.

    Of those of which nothing is known then, what is known at its begin. ``time_ns`` is the time of
    values that have no end.
    """
    if names is None or not report:
        return
    if time_ns is not None:
        times = [time_ns, time_ns]
    elif "capture" in report:
        times = [report["capture"][f"{side}_time_ns"] for side in ("last", "first")]
    else:
        times = [report["b"]["last_time_ns"], report["a"]["first_time_ns"]]
    found: dict[str, dict[str, str | None]] = {}

    def note(text: str) -> str:
        for match in _ADDRESS.finditer(text):
            address = match[1] or match[2] or match[3]
            known = names.of(address, times[0]) or names.of(address, times[1])
            if known is not None:
                found[address] = {"name": known.name, "app": known.app, "zone": known.zone}
        return text

    _changed(report, note)
    report["names"] = dict(sorted(found.items()))


def named_text(text: str, names: AddressNames, time_ns: int) -> str:
    """Return a text with the names beside the addresses in it, as they are at a time; escaped."""

    def named(match: re.Match[str]) -> str:
        known = names.of(match[1] or match[2] or match[3], time_ns)
        name = None if known is None else known.name or known.app
        return _beside(match[0], None if name is None else escape(name))

    return _ADDRESS.sub(named, text)


def names_in(text: str, names: AddressNames | None, time_ns: int) -> Iterator[str]:
    """Yield the names and applications, at a time, of the addresses in a text."""
    if names is None:
        return
    for match in _ADDRESS.finditer(text):
        known = names.of(match[1] or match[2] or match[3], time_ns)
        if known is not None:
            yield from filter(None, (known.name, known.app))


def _beside(address: str, name: str | None) -> str:
    return address if name is None else f"{name} ({address})"


def with_names(report: Mapping[str, Any], names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a report with names beside addresses; ``names`` are by default its own."""
    known = report.get("names") if names is None else names
    if not known:
        return dict(report)

    def named(match: re.Match[str]) -> str:
        of_address = known.get(match[1] or match[2] or match[3]) or {}
        return _beside(match[0], of_address.get("name") or of_address.get("app"))

    changed: dict[str, Any] = _changed(report, lambda text: _ADDRESS.sub(named, text))
    for line in changed.get("latency_parts") or ():
        if isinstance(line, dict):  # not in the sums of a page
            end = str(Endpoint(line["broker_ip"], line["broker_port"]))
            line["broker"] = _ADDRESS.sub(named, end)
    return changed


def _changed(value: Any, change: Callable[[str], str], *, is_address: bool = False) -> Any:
    """Return a value in which the texts of fields with addresses are changed."""
    if isinstance(value, dict):
        is_broker = _BROKER in (value.get("by"), value.get("kind"))  # in a comparison
        return {
            name: _changed(
                each, change, is_address=name in _FIELDS or (is_broker and name == "name")
            )
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_changed(each, change, is_address=is_address) for each in value]
    return change(value) if is_address and isinstance(value, str) else value
