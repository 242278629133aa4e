"""Batch readers of captures, and the options of the data source: what their texts mean.

In: the options of ``spark.read.format("kanalyze").option(...)``. Out: :class:`Options`, a
:class:`~kanalyze.batch.read_plan.ReadPlan`, its partitions, and Arrow batches.

Filters have the names of the arguments of :func:`kanalyze.requests`, in Spark's spelling
(``slowerThan``); case does not matter. An option that a table does not have is an error: ignoring a
filter would give wrong rows. Several values are separated by commas, or are a JSON list of texts if
one of them contains a comma.

A connection may continue in the next capture, and a Python data source cannot shuffle. So each task
reads all packets, but follows only the connections of its shard: the rows of all partitions
together are those of one process, wherever files begin and end.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from kanalyze.api.inputs import make_filter, read_topic_ids
from kanalyze.batch.key_sources import find_key_files
from kanalyze.batch.packets import PACKET_COLUMNS, packet_batches
from kanalyze.batch.read_plan import ReadPlan, TablePartition, table_batches
from kanalyze.capture.inputs import check_many_may_read, find_inputs, find_readable, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.common.argument_values import duration_text, number_texts, path_texts, time_text
from kanalyze.common.garbage_collection import collecting_rarely
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import parse_size
from kanalyze.errors import CaptureError, UsageError
from kanalyze.export.schema import choose_columns
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.net.segment_columns import Shard
from kanalyze.spec.filters import BY_NAMES, FILTERS
from kanalyze.spec.options import MAX_PORT, MAX_RECORDS
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS
from kanalyze.spec.rows.records import VALUE_COLUMNS, columns_of_records
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.spec.rows.tables import TABLES as TABLE_SPECS
from kanalyze.tables.columns.numpy_arrays import ints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock

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


def parse_options(raw_options: Mapping[str, str]) -> Options:
    """Parse options as Spark has them: texts by name.

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
    if table not in TABLES:
        raise UsageError(f"unknown table {table!r}; there are {', '.join(TABLES)}")
    allowed = {name.lower() for name in (*_COMMON, *TABLES[table].options)}
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
        if name not in BY_NAMES
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
    *(
        option
        for name in FILTERS
        if (option := _spelled(name)) in _ALL_PARSERS and option not in CONNECTION_OPTIONS
    ),
)
"""Options of tables that are made from requests."""


def option_texts(options: dict[str, Any]) -> dict[str, str]:
    """Return arguments of Python as the texts of options, without underscores in names."""
    texts = {name: _argument_text(name, value) for name, value in options.items()}
    return {name.replace("_", ""): text for name, text in texts.items() if text is not None}


def _argument_text(name: str, value: Any) -> str | None:
    """Return an option's value as text; None if it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if name in ("since", "until"):
        return time_text(name, value)
    if name == "slower_than":
        return duration_text(name, value)
    if name == "keylog":
        files = path_texts(name, value)  # a comma may be part of a name
        return json.dumps(files) if files else None
    if value is None or isinstance(value, str | int):
        return None if value is None else str(value)
    if isinstance(value, os.PathLike):
        return str(value)
    numbers = number_texts(name, value)
    return json.dumps(numbers) if numbers else None


_BYTES_A_TASK: Final = 256 << 20
_MAX_TASKS: Final = 4
"""Default limit of partitions: each of them reads all packets."""


class SourceTable(NamedTuple):
    """A table of the data source."""

    columns: tuple[Column, ...]
    options: tuple[str, ...]
    """Its options in addition to those that every table has."""
    on_request: frozenset[str] = frozenset()
    """Columns that need ``values=true``: they have users' data."""


def make_plan(raw_options: Mapping[str, str]) -> ReadPlan:
    """Return the plan for options as Spark has them; otherwise as :func:`plan_of`."""
    return plan_of(parse_options(raw_options))


def plan_of(options: Options, names: Sequence[str] | None = None) -> ReadPlan:
    """Return the plan for options. Files with names of topics and definitions are read now.

    Args:
        options: what to read.
        names: columns, in this order; None for those of option ``columns``, or else all.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: an option has an invalid value.
    """
    requested = options.columns if names is None else names
    catalog = Catalog(options.definitions)
    plan = ReadPlan(
        table=options.table,
        columns=choose_columns(requested, _columns(options, requested or ())),
        row_filter=make_filter(catalog, port=options.ports, **options.filters),
        filters=options.filters,
        catalog=catalog,
        ports=options.ports,
        topic_ids=None if options.topic_ids is None else read_topic_ids(options.topic_ids),
        definitions=options.definitions,
        keys=find_key_files(options.keylog),
        max_memory_bytes=options.max_memory_bytes,
        leave_out_unreadable=options.leave_out_unreadable,
        values=options.values,
        max_records=options.max_records,
    )
    plan.check()
    return plan


def _columns(options: Options, requested: Sequence[str]) -> tuple[Column, ...]:
    table = TABLES[options.table]
    if options.values:
        return table.columns
    for name in requested:
        if name in table.on_request:
            raise UsageError(f"column {name!r} has users' data: use values=true")
    return tuple(column for column in table.columns if column.name not in table.on_request)


def captures_of(options: Options, stores: Stores) -> tuple[list[FoundCapture], list[Anomaly]]:
    """Return the captures that options name, sorted by the times of their first packets.

    Each is opened once. The anomalies are of files that were left out, in mode ``quarantine``.

    Raises:
        CaptureError: a capture is missing, or a file is no capture; the text names it. In a folder,
            files that neither are captures nor have the name of one do not count.
        UsageError: no capture is named.
    """
    if not options.paths:
        raise UsageError("no capture given: load(PATH), or option path")
    if options.leave_out_unreadable:
        return find_readable(options.paths, stores)
    left_out: list[Anomaly] = []
    captures = find_inputs(options.paths, stores, left_out.append, needs_all=True)
    if left_out:
        raise CaptureError(left_out[0].detail)
    for capture in captures:
        check_many_may_read(capture.path)
    return [look_at(capture, stores) for capture in captures], []


def partitions_of(
    options: Options, captures: Sequence[FoundCapture], unreadable: Sequence[Anomaly]
) -> list[TablePartition]:
    """Divide captures among tasks; if there are none, there is one empty partition."""
    divide = _whole_captures if options.table == _PACKETS else _shards
    first, *others = divide(options, captures) or [TablePartition(())]
    return [first._replace(unreadable=tuple(unreadable)), *others]


def read_partition(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, with the columns of the plan.

    Raises:
        CaptureError: a capture cannot be opened or read.
    """
    batches = _packets if plan.table == _PACKETS else table_batches
    with collecting_rarely():
        yield from batches(plan, partition)


# -- partitions -----------------------------------------------------------------------------------


def _shards(options: Options, captures: Sequence[FoundCapture]) -> list[TablePartition]:
    """Give each task a shard of the connections in all captures."""
    count = options.partitions or _worthwhile_tasks(captures)
    return [TablePartition(tuple(captures), Shard(index, count)) for index in range(count)]


def _worthwhile_tasks(captures: Sequence[FoundCapture]) -> int:
    sizes = [capture.total_bytes for capture in captures]
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        return 1
    return max(1, min(_MAX_TASKS, -(-sum(known_sizes) // _BYTES_A_TASK)))


def _whole_captures(options: Options, captures: Sequence[FoundCapture]) -> list[TablePartition]:
    """Give each task whole captures: packets are numbered from the beginning of a capture."""
    count = min(options.partitions or len(captures), len(captures))
    return [TablePartition(tuple(captures[first::count])) for first in range(count)]


# -- packets --------------------------------------------------------------------------------------


def _packets(plan: ReadPlan, partition: TablePartition) -> Iterator[pa.RecordBatch]:
    stores = Stores()
    since_ns, until_ns = plan.row_filter.get("since"), plan.row_filter.get("until")

    def choose(block: RowBlock) -> RowBlock:
        return _between(block, since_ns, until_ns)

    for capture in partition.captures:
        yield from packet_batches(capture.path, columns=plan.columns, choose=choose, stores=stores)


def _between(block: RowBlock, since_ns: int | None, until_ns: int | None) -> RowBlock:
    times = ints_of(block.columns["time_ns"])
    is_selected = np.ones(len(block), np.bool_)
    if since_ns is not None:
        is_selected &= times.values >= since_ns
    if until_ns is not None:
        is_selected &= times.values < until_ns
    return block if is_selected.all() else block.take(np.flatnonzero(is_selected).tolist())


_PACKETS: Final = "packets"
TABLES: Final[dict[str, SourceTable]] = {
    "requests": SourceTable(COLUMNS, REQUEST_OPTIONS),
    "records": SourceTable(
        columns_of_records(values=True, is_table=True),
        (*REQUEST_OPTIONS, "values", "maxRecords"),
        on_request=VALUE_COLUMNS,
    ),
    "connections": SourceTable(CONNECTION_COLUMNS, (*CONNECTION_OPTIONS, "clientId")),
    "anomalies": SourceTable(ANOMALY_COLUMNS, CONNECTION_OPTIONS),
    **{
        table: SourceTable(TABLE_SPECS[table].columns, REQUEST_OPTIONS)
        for table in ("groups", "metadata", "changes", "client_metrics")
    },
    _PACKETS: SourceTable(PACKET_COLUMNS, TIME_OPTIONS),
}
"""The tables by name."""
