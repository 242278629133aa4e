"""The options of the data source: what their texts mean.

In: the options of ``spark.read.format("kanalyze").option(...)``. Out: :class:`Options`.

Filters have the names of the arguments of :func:`kanalyze.requests`, in Spark's spelling
(``slowerThan``); case does not matter. An option that a table does not have is an error: ignoring a
filter would give wrong rows. Several values are separated by commas, or are a JSON list of texts if
one of them contains a comma.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import parse_size
from kanalyze.errors import UsageError
from kanalyze.spec.filters import FILTERS
from kanalyze.spec.options import MAX_PORT, MAX_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["CONNECTION_OPTIONS", "REQUEST_OPTIONS", "TIME_OPTIONS", "Options", "parse_options"]

_Parse: TypeAlias = "Callable[[str], Any]"

DEFAULT_TABLE: Final = "requests"
_MAX_PARTITIONS: Final = 256


class Options(NamedTuple):
    """What to read, and how."""

    paths: tuple[str, ...]
    """Files, folders, globs, URLs of any of these."""
    table: str
    columns: tuple[str, ...] | None
    """None for all."""
    leave_out_unreadable: bool
    """Whether a file that is not a capture, or cannot be opened, is an anomaly and not an error."""
    partitions: int | None
    """None for a number that depends on the sizes of the captures."""
    filters: dict[str, Any]
    """Arguments of :func:`kanalyze.api.inputs.make_filter`."""
    ports: tuple[int, ...]
    topic_ids: str | None
    """A file."""
    definitions: str | None
    """A folder."""
    keylog: tuple[str, ...]
    """Files, folders, globs, URLs of any of these."""
    max_memory_bytes: int | None
    """Memory limit in bytes for all tasks together."""
    values: bool
    """Whether records have keys, values and headers."""
    max_records: int | None
    """Limit for one batch of records; None for as many as its bytes may contain."""


def parse_options(raw_options: Mapping[str, str], tables: Mapping[str, Iterable[str]]) -> Options:
    """Parse options.

    Args:
        raw_options: texts by name.
        tables: the tables by name, and the options of each besides those that all tables have.

    Raises:
        UsageError: an option is unknown, is not one of the table's, or has an invalid value; the
            text names it.
    """
    texts = {name.lower(): text for name, text in raw_options.items()}
    for name in texts:
        if name not in _PARSERS:
            known_options = ", ".join(sorted(_NAMES.values()))
            raise UsageError(f"unknown option: {name!r}; there are {known_options}")
    table = texts.get("table", DEFAULT_TABLE).strip().lower()
    if table not in tables:
        raise UsageError(f"unknown table {table!r}; there are {', '.join(tables)}")
    allowed = {name.lower() for name in (*_COMMON, *tables[table])}
    for name in texts:
        if name not in allowed:
            raise UsageError(f"option {_NAMES[name]}: table={table} has no such option")
    parsed = {name: _parsed(name, text) for name, text in texts.items()}
    return Options(
        paths=(*parsed.get("path", ()), *parsed.get("paths", ())),
        table=table,
        columns=parsed.get("columns"),
        leave_out_unreadable=parsed.get("mode", False),
        partitions=parsed.get("numpartitions"),
        filters={
            name: parsed[_spelled(name).lower()]
            for name in FILTERS
            # Ports are apart: they also say which ends are brokers.
            if name != "port" and _spelled(name).lower() in parsed
        },
        ports=parsed.get("port", ()),
        topic_ids=parsed.get("topicids"),
        definitions=parsed.get("definitions"),
        keylog=parsed.get("keylog", ()),
        max_memory_bytes=parsed.get("maxmemory"),
        values=parsed.get("values", False),
        max_records=parsed.get("maxrecords"),
    )


def _parsed(name: str, text: str) -> Any:
    try:
        return _PARSERS[name](text)
    except UsageError as error:
        raise UsageError(f"option {_NAMES[name]}: {error}") from None


def _text(text: str) -> str:
    if not text.strip():
        raise UsageError("is empty")
    return text.strip()


def _texts(text: str) -> tuple[str, ...]:
    """Split a list of texts; a bracket may begin a glob as well as JSON."""
    texts = _json_texts(text)
    if texts is None:
        texts = [part.strip() for part in text.split(",")]
    if not texts or not all(texts):
        raise UsageError(f"texts separated by commas, or a JSON list of them, not {text!r}")
    return tuple(texts)


def _json_texts(text: str) -> list[str] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return value if is_texts else None


def _bool(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise UsageError(f"true or false, not {text!r}")
    return text.strip().lower() == "true"


def _mode(text: str) -> bool:
    modes = {"failfast": False, "quarantine": True}
    if text.strip().lower() not in modes:
        raise UsageError(f"{' or '.join(modes)}, not {text!r}")
    return modes[text.strip().lower()]


def _ports(text: str) -> tuple[int, ...]:
    return tuple(_number(part, MAX_PORT) for part in _texts(text))


def _spelled(name: str) -> str:
    """Return the name of an option in Spark's spelling: ``slowerThan``."""
    first, *words = name.split("_")
    return first + "".join(map(str.capitalize, words))


def _number(text: str, most: int) -> int:
    digits = text.strip()
    # int() raises ValueError for thousands of digits.
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(most))
    if is_number and 0 < int(digits) <= most:
        return int(digits)
    raise UsageError(f"not a number from 1 to {most}: {text!r}")


_ALL_PARSERS: Final[dict[str, _Parse]] = {
    "path": _texts,
    "paths": _texts,
    "table": _text,
    "columns": _texts,
    "mode": _mode,
    "numPartitions": partial(_number, most=_MAX_PARTITIONS),
    **{
        _spelled(name): _bool if each.value is None else _texts if each.is_repeated else _text
        for name, each in FILTERS.items()
    },
    "port": _ports,
    "topicIds": _text,
    "definitions": _text,
    "keylog": _texts,
    "maxMemory": parse_size,
    "values": _bool,
    "maxRecords": partial(_number, most=MAX_RECORDS),
}
_PARSERS: Final = {name.lower(): parse for name, parse in _ALL_PARSERS.items()}
_NAMES: Final = {name.lower(): name for name in _ALL_PARSERS}

_COMMON: Final = ("path", "paths", "table", "columns", "mode", "numPartitions")
TIME_OPTIONS: Final = ("since", "until")
CONNECTION_OPTIONS: Final = (
    *TIME_OPTIONS,
    "clientIp",
    "broker",
    "port",
    "topicIds",
    "definitions",
    "keylog",
    "maxMemory",
)
"""Options of tables for which connections are followed."""
REQUEST_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    *(_spelled(name) for name in FILTERS if _spelled(name) not in CONNECTION_OPTIONS),
)
"""Options of tables that are made from requests."""
