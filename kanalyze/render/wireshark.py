"""What Wireshark takes: display filters, and the comment on the packets of a request.

In: numbers of packets in their capture; a row. Out: a text.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kanalyze.common.texts import escape
from kanalyze.render.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.spec.rows.requests import Row

__all__ = ["comment_of", "display_filter", "filter_lines"]


def filter_lines(packets: Iterable[tuple[str, int | None]]) -> Iterator[str]:
    """Yield a display filter for each capture, with the name of the capture if there are several.

    ``packets`` are pairs of a capture and the number of a packet in it; a number may be None.
    """
    numbers_by_capture: defaultdict[str, list[int]] = defaultdict(list)
    for capture, number in packets:
        if number is not None:
            numbers_by_capture[capture].append(number)
    for capture, numbers in numbers_by_capture.items():
        name = f"{escape(capture)}: " if len(numbers_by_capture) > 1 else ""
        yield name + display_filter(numbers)


def display_filter(numbers: Iterable[int]) -> str:
    """Return the filter that shows the packets with these numbers, of which there is at least one.

    ``frame.number in {81, 91..93}``; with commas, as Wireshark 3.6 and later read it.
    """
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    items = (str(first) if first == last else f"{first}..{last}" for first, last in runs)
    return f"frame.number in {{{', '.join(items)}}}"


_MAX_CLIENT_ID_CHARS: Final = 200
_MAX_ERRORS: Final = 8


def comment_of(row: Row) -> str:
    """Return the comment for a request: one line, with control characters escaped.

    ``Produce v9; correlation id 7; client billing; error; NOT_LEADER_OR_FOLLOWER; latency 3 ms``
    """
    api = row.api_name or ("?" if row.api_key is None else f"API {row.api_key}")
    parts = [api if row.api_version is None else f"{api} v{row.api_version}"]
    if row.correlation_id is not None:
        parts.append(f"correlation id {row.correlation_id}")
    if row.client_id is not None:
        parts.append(f"client {escape(row.client_id[:_MAX_CLIENT_ID_CHARS])}")
    parts.append(row.status.replace("_", " "))
    parts.append(", ".join(dict.fromkeys(error.name for error in row.errors[:_MAX_ERRORS])))
    if row.latency_ns is not None:
        parts.append(f"latency {duration_text(row.latency_ns)}")
    return "; ".join(filter(None, parts))
