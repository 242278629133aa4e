"""What Wireshark takes: display filters, and the comments on the packets of requests.

In: numbers of packets in their capture; rows. Out: texts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

from kanalyze.common.texts import escape
from kanalyze.render.units import duration_text
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from kanalyze.spec.rows.requests import ErrorItem
    from kanalyze.tables.columns.block import RowBlock

_Value = TypeVar("_Value", bound="Hashable")


def filter_lines(
    packets: Iterable[tuple[str, int | None]], *, of_several: bool = False
) -> Iterator[str]:
    """Yield a display filter for each capture, with the name of the capture if there are several.

    Args:
        packets: pairs of a capture and the number of a packet in it; a number may be None.
        of_several: whether several captures were read, though all of these may be in one.
    """
    numbers_by_capture: defaultdict[str, list[int]] = defaultdict(list)
    for capture, number in packets:
        if number is not None:
            numbers_by_capture[capture].append(number)
    for capture, numbers in numbers_by_capture.items():
        has_name = of_several or len(numbers_by_capture) > 1
        name = f"{escape(capture)}: " if has_name else ""
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


_IN_COMMENTS: Final = (
    *("api_name", "api_key", "api_version", "correlation_id", "client_id", "status", "errors"),
    "latency_ns",
)
_BY_NAME: Final = {column.name: column for column in COLUMNS}
_COLUMNS: Final = [_BY_NAME[name] for name in _IN_COMMENTS]


def comments_of(block: RowBlock) -> list[str]:
    """Return the comment for each request: one line, with control characters escaped.

    ``Produce v9; correlation id 7; client billing; error; NOT_LEADER_OR_FOLLOWER; latency 3 ms``
    """
    names, keys, versions, ids, clients, statuses, errors, latencies = block.values(_COLUMNS)
    apis = _texts_of(zip(names, keys, versions, strict=True), _api_and_version)
    id_texts = ["" if number is None else f"; correlation id {number}" for number in ids]
    client_texts = _texts_of(clients, _client)
    status_texts = _texts_of(statuses, _status)
    error_texts = [_errors(items) if items else "" for items in errors]
    latency_texts = [
        "" if latency_ns is None else f"; latency {duration_text(latency_ns)}"
        for latency_ns in latencies
    ]
    parts = (apis, id_texts, client_texts, status_texts, error_texts, latency_texts)
    return list(map("".join, zip(*parts, strict=True)))


def _texts_of(values: Iterable[_Value], text_of: Callable[[_Value], str]) -> list[str]:
    """Return the text of each value; that of equal values is made once."""
    values = list(values)
    texts = {value: text_of(value) for value in set(values)}
    return list(map(texts.__getitem__, values))


def _api_and_version(cells: tuple[str | None, int | None, int | None]) -> str:
    name, key, version = cells
    api = name or ("?" if key is None else f"API {key}")
    return api if version is None else f"{api} v{version}"


def _client(client_id: str | None) -> str:
    return "" if client_id is None else f"; client {escape(client_id[:_MAX_CLIENT_ID_CHARS])}"


def _status(status: str) -> str:
    return f"; {status.replace('_', ' ')}"


def _errors(errors: Sequence[ErrorItem]) -> str:
    names = dict.fromkeys(error.name for error in errors[:_MAX_ERRORS])
    return f"; {', '.join(names)}"
