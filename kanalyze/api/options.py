"""The options of the library's functions: their names, their types, and what they mean.

In: keyword arguments from a user. Out: a filter and the arguments of an analysis, or a UsageError
of one line that begins with the argument's name.

The types are defined only here: editors and type checkers read ``**options:
Unpack[RequestOptions]``, and :func:`check_names` checks calls against them.
:func:`kanalyze.requests` describes each option.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from kanalyze.capture.listing import FoundCapture
from kanalyze.common.argument_values import (
    address_texts,
    duration_text,
    number_texts,
    parsed,
    ports,
    texts,
    time_text,
    truth,
)
from kanalyze.common.times import parse_duration_ns
from kanalyze.errors import UsageError
from kanalyze.tables.filters import (
    RowFilter,
    parse_apis,
    parse_broker,
    parse_error,
    parse_network,
    parse_partition,
    parse_status,
    parse_time_or_time_of_day,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from kanalyze.common.argument_values import (
        Addresses,
        Apis,
        Duration,
        Moment,
        Numbers,
        Ports,
        Texts,
    )
    from kanalyze.runtime.pipeline import CaptureInput

    Captures: TypeAlias = CaptureInput | Iterable[CaptureInput]
    FileName: TypeAlias = str | os.PathLike[str] | None
    """A path; None for no file."""
    FileNames: TypeAlias = FileName | Iterable[str | os.PathLike[str]]
    """One or several paths; None for no file."""

__all__ = [
    "AnomalyOptions",
    "AnonymizeOptions",
    "CompareOptions",
    "ConnectionOptions",
    "EndOptions",
    "ExtractOptions",
    "MessageOptions",
    "RecordOptions",
    "RequestOptions",
    "captures_of",
    "check_names",
    "duration_ns",
    "filter_of",
]


_T = TypeVar("_T")


class EndOptions(TypedDict, total=False):
    """Options of all functions: conditions on the two ends and on times, and limits."""

    client_ip: Addresses
    broker: Addresses
    port: Ports
    since: Moment
    until: Moment
    definitions: FileName
    keylog: FileNames
    max_memory_bytes: int | str | None


class AnomalyOptions(EndOptions, total=False):
    """Options of :func:`kanalyze.anomalies`."""

    kind: Texts


class ConnectionOptions(EndOptions, total=False):
    """Options of :func:`kanalyze.connections`."""

    client_id: Texts


class MessageOptions(ConnectionOptions, total=False):
    """Options of :func:`kanalyze.decode`: every condition on requests."""

    api: Apis
    topic: Texts
    partition: Numbers
    group: Texts
    status: Texts
    error: Numbers
    errors: bool
    slower_than: Duration
    topic_ids: FileName


class RecordOptions(MessageOptions, total=False):
    """Options of :func:`kanalyze.records`."""

    values: bool
    max_records: int | None
    search: str | bytes | None


class RequestOptions(MessageOptions, total=False):
    """Options of :func:`kanalyze.requests`, similar functions, and :func:`kanalyze.report`."""

    jobs: int


class ExtractOptions(RequestOptions, total=False):
    """The options of :func:`kanalyze.extract`."""

    around: Duration
    with_handshake: bool
    whole_connections: bool
    with_secrets: bool
    force: bool


class AnonymizeOptions(TypedDict, total=False):
    """The options of :func:`kanalyze.anonymize`."""

    key: str | bytes | None
    strip_records: bool
    force: bool
    port: Ports
    definitions: FileName
    max_memory_bytes: int | str | None


class CompareOptions(RequestOptions, total=False):
    """Options of :func:`kanalyze.compare`."""

    at_least: float
    least_ms: float
    least_percent: float


def check_names(function: str, options: Mapping[str, Any], valid_names: frozenset[str]) -> None:
    """Raise the same TypeError as Python for an argument that a function does not have.

    Args:
        function: name of the function.
        options: the options of the call.
        valid_names: names of its options: ``__optional_keys__`` of one of the classes above.
    """
    for name in options:
        if name not in valid_names:
            import difflib  # imported late: only needed for an unknown name

            similar = difflib.get_close_matches(name, sorted(valid_names), n=1)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def captures_of(arguments: Iterable[object]) -> tuple[Any, ...]:
    """Return captures as a flat tuple; an argument may be a list of captures.

    Whether each is a capture is checked when it is read. Raises UsageError if there is none.
    """
    captures: list[object] = []
    for argument in arguments:
        if _is_one_capture(argument):
            captures.append(argument)
        else:
            captures += argument  # type: ignore[arg-type]
    if not captures:
        raise UsageError("no capture given")
    return tuple(captures)


def _is_one_capture(value: object) -> bool:
    if isinstance(value, str | bytes | os.PathLike | FoundCapture) or hasattr(value, "read"):
        return True
    return not hasattr(value, "__iter__") or isinstance(value, type)


def filter_of(options: Mapping[str, Any], api_names: Callable[[], Mapping[str, int]]) -> RowFilter:
    """Return the filter that options describe.

    Args:
        options: any of the options above. An option that is left out is no condition.
        api_names: returns the keys of APIs by name.

    Raises:
        UsageError: an option is invalid; the text begins with its name.
    """
    api = texts("api", options.get("api"), numbers=True)
    apis = parsed("api", parse_apis, api, api_names() if api else None)
    since_ns, since_of_day_ns = _time("since", options.get("since"))
    until_ns, until_of_day_ns = _time("until", options.get("until"))
    return RowFilter(
        api_names=apis.names,
        api_keys=apis.keys,
        client_ids=texts("client_id", options.get("client_id")),
        client_networks=_parsed_texts("client_ip", parse_network, address_texts, options),
        brokers=_parsed_texts("broker", parse_broker, address_texts, options),
        ports=frozenset(ports("port", options.get("port"))),
        topics=texts("topic", options.get("topic")),
        partitions=_parsed_texts("partition", parse_partition, number_texts, options),
        groups=texts("group", options.get("group")),
        statuses=frozenset(_parsed_texts("status", parse_status, texts, options)),
        error_codes=frozenset(_parsed_texts("error", parse_error, number_texts, options)),
        errors_only=truth("errors", options.get("errors", False)),
        slower_than_ns=duration_ns("slower_than", options.get("slower_than")),
        since_ns=since_ns,
        until_ns=until_ns,
        since_of_day_ns=since_of_day_ns,
        until_of_day_ns=until_of_day_ns,
    )


def _parsed_texts(
    name: str,
    parse: Callable[[str], _T],
    texts_of: Callable[[str, object], tuple[str, ...]],
    options: Mapping[str, Any],
) -> tuple[_T, ...]:
    return tuple(parsed(name, parse, text) for text in texts_of(name, options.get(name)))


def _time(name: str, value: object) -> tuple[int | None, int | None]:
    text = time_text(name, value)
    if text is None:
        return None, None
    return parsed(name, parse_time_or_time_of_day, text)


def duration_ns(name: str, value: object) -> int | None:
    """Return a duration in ns; None for None. Raises UsageError that begins with ``name``."""
    text = duration_text(name, value)
    return None if text is None else parsed(name, parse_duration_ns, text)
