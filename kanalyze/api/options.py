"""The options of the library's functions: their names, their types, and how values are read.

In: keyword arguments from a user. Out: plain values, a filter, or a UsageError of one line that
begins with the argument's name.

The types are defined only here: editors and type checkers read ``**options:
Unpack[RequestOptions]``, and :func:`read_options` reads each value by its type.
:func:`kanalyze.requests` describes each option.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from kanalyze.capture.inputs import FoundCapture
from kanalyze.common.argument_values import (
    address_texts,
    count,
    duration_text,
    number_texts,
    parsed,
    path_text,
    path_texts,
    ports,
    size_bytes,
    texts,
    time_text,
    truth,
)
from kanalyze.errors import UsageError
from kanalyze.spec.filters import FILTERS
from kanalyze.spec.options import MAX_JOBS, MAX_RECORDS
from kanalyze.tables.filters import RowFilter, parse_condition

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
    from kanalyze.tables.names import AddressNames

    Captures: TypeAlias = CaptureInput | Iterable[CaptureInput]
    FileName: TypeAlias = str | os.PathLike[str] | None
    """A path; None for no file."""
    FileNames: TypeAlias = FileName | Iterable[str | os.PathLike[str]]
    """One or several paths; None for no file."""
    NameFiles: TypeAlias = FileNames
    """Files with names of addresses."""


class EndOptions(TypedDict, total=False):
    """Options of all functions: conditions on the two ends and on times, and limits."""

    client_ip: Addresses
    client_app: Texts
    zone: Texts
    names: NameFiles
    broker: Addresses
    port: Ports
    connection: Texts
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
    principal: Texts


class MessageOptions(ConnectionOptions, total=False):
    """Options of :func:`kanalyze.decode`: every condition on requests."""

    api: Apis
    topic: Texts
    partition: Numbers
    group: Texts
    packet: Numbers
    correlation_id: Numbers
    anomaly: Texts
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
    schemas: FileName


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
    jobs: int
    port: Ports
    definitions: FileName
    max_memory_bytes: int | str | None


class CompareOptions(RequestOptions, total=False):
    """Options of :func:`kanalyze.compare`."""

    at_least: float
    least_ms: float
    least_percent: float


def _names(name: str, value: Any) -> AddressNames | None:
    """Return the names of addresses in files; None for no files."""
    files = path_texts(name, value)
    if not files:
        return None
    from kanalyze.api.name_files import read_names  # imported late: few calls have names

    return parsed(name, read_names, files)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "Addresses": address_texts,
    "Apis": partial(texts, numbers=True),
    "Duration": duration_text,
    "FileName": path_text,
    "FileNames": path_texts,
    "Moment": time_text,
    "NameFiles": _names,
    "Numbers": number_texts,
    "Ports": ports,
    "Texts": texts,
    "bool": truth,
    "int": partial(count, most=MAX_JOBS),
    "int | None": lambda name, value: None if value is None else count(name, value, MAX_RECORDS),
    "int | str | None": size_bytes,
}
"""How values are read, by the type of the option; the others are read by what takes them."""


def read_options(function: str, declared: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call as plain values: texts, numbers, tuples of these.

    Args:
        function: name of the function.
        declared: its options: one of the classes above.
        options: the options of the call.

    Raises:
        TypeError: the function has no such option; the same text as Python's.
        UsageError: a value is not of the option's type; the text begins with its name.
    """
    for name in options.keys() - declared.__annotations__:
        import difflib  # imported late: only needed for an unknown name

        similar = difflib.get_close_matches(name, sorted(declared.__annotations__), n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")
    return {
        name: _READERS.get(declared.__annotations__[name].__forward_arg__, _unread)(name, value)
        for name, value in options.items()
    }


def _unread(_: str, value: Any) -> Any:
    return value


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


def filter_of(
    given: Mapping[str, Any],
    api_names: Callable[[], Mapping[str, int]],
    names: AddressNames | None = None,
) -> RowFilter:
    """Return the filter that options describe.

    Args:
        given: what :func:`read_options` returned. A filter that is left out is no condition.
        api_names: returns the keys of APIs by name.
        names: the names of addresses.

    Raises:
        UsageError: a filter is invalid; the text begins with its name.
    """
    of_apis = api_names() if given.get("api") else None
    return RowFilter(
        {
            name: parsed(name, parse_condition, name, given[name], of_apis)
            for name in FILTERS
            if name in given
        }
    ).naming(names)
