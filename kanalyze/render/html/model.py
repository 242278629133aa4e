"""The data of the page, with names escaped and times in µs.

In: a report and its cube. Out: plain values, which are written into the page as JSON.

A JavaScript number cannot hold a present Unix time in ns. So times are in µs; durations stay in ns.
"""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from kanalyze.common.texts import escape
from kanalyze.common.zones import UTC
from kanalyze.model.tcp import Endpoint
from kanalyze.render.html.tables import TABLES, table_specs
from kanalyze.render.missing import failed_names
from kanalyze.render.units import (
    MISSING,
    api_label,
    api_text,
    duration_text,
    is_dated,
    listed,
    packets_text,
    shown,
    status_text,
)
from kanalyze.spec.report import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kanalyze.common.zones import Zone

_PARTS = (
    *({"column": column, "class": class_, "title": title} for column, class_, title in PARTS),
    {"column": None, "class": "latency", "title": "network and broker together"},
)
"""The parts of a request's time; the last is latency that cannot be divided."""
_MAX_PARTS_SHOWN = 2
_MIN_SHARE = 0.01

_GLOB = re.compile(r"[*?\[]")
_KINDS = {
    "Produce": "produce",
    "MultiProduce": "produce",
    "Fetch": "fetch",
    "MultiFetch": "fetch",
    "ShareFetch": "fetch",
    "JoinGroup": "join",
    "SyncGroup": "sync",
    "LeaveGroup": "leave",
    "Heartbeat": "heartbeat",
    "ConsumerGroupHeartbeat": "heartbeat",
    "OffsetCommit": "commit",
    "TxnOffsetCommit": "commit",
}
_OTHERS = {
    "client": "(other clients)",
    "api": "(other APIs)",
    "version": "(others)",
    "broker": "(other brokers)",
    "group": "(other groups)",
    "topic": "(other topics)",
    "code": "(other errors)",
    "part": "(other partitions)",
}
_MADE_BY = {
    "failures": ("errors",),
    "batches": ("partitions", "codecs"),
    "latency_parts": ("latency_parts",),
    "slowest": ("slowest",),
}
"""The tables that a query of the page makes alone."""
_MAX_SOFTWARE = 3


def model_of(
    report: Mapping[str, Any], cube: Mapping[str, Any], zone: Zone = UTC
) -> dict[str, Any]:
    """Return the data that the page shows and sums up; times are in UTC, ``zone`` as offsets."""
    names = cube["names"]
    start_us = cube["start_ns"] // 1000
    return {
        "start_us": start_us,
        "bucket_us": cube["bucket_ns"] // 1000,
        "buckets": cube["buckets"],
        "bin_ratio": cube["bin_ratio"],
        "dated": is_dated(report["capture"], zone),
        "offsets": [
            [from_ns // 1000, offset_ns // 1000]
            for from_ns, offset_ns in zone.offsets_ns(
                cube["start_ns"], cube["start_ns"] + cube["buckets"] * cube["bucket_ns"]
            )
        ],
        "others": _OTHERS,
        "names": {
            "client": _clients(names["clients"], report["clients"]),
            "api": [_api(line) for line in names["apis"]],
            "version": [{"label": _version(line)} for line in names["versions"]],
            "broker": [
                {
                    "label": shown(line["broker"]),
                    "option": f"--broker {Endpoint(line['broker_ip'], line['broker_port'])}",
                }
                for line in names["brokers"]
            ],
            "group": [_named(line["name"], "--group", _literally) for line in names["groups"]],
            "topic": [_named(line["name"], "--topic", _literally) for line in names["topics"]],
            "code": [
                {"label": f"{shown(line['error_name'])} {line['error_code']}"}
                for line in names["codes"]
            ],
            "part": [
                {"label": str(line["partition"]), "topic": shown(line["topic"])}
                for line in names["parts"]
            ],
        },
        "parts": _PARTS,
        "cells": cube["cells"],
        "failures": _with(cube["failures"], ("first_time_ns", "last_time_ns"), _us),
        "batches": _with(cube["batches"], ("codec",), lambda codec: codec and shown(codec)),
        "latency_parts": _with(
            cube["latency_parts"], ("capture_point",), lambda point: point or "not known"
        ),
        "exact": cube["exact"],
        "slowest": [_slow(line) for line in cube["slowest"]],
        **{
            name: [make(line) for line in report[name][:_MOST_LINES]]
            for name, make in _WHOLE.items()
        },
        "lags": [
            {"label": f"{shown(line['group_id'])} {shown(line['topic'])}", "points": line["points"]}
            for line in cube["lags"]
        ],
        "group_events": [_event(line) for line in cube["group_events"]],
        "tables": table_specs(),
        "missing": _missing_tables(report),
    }


def _missing_tables(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what to say in place of the lines of tables whose query failed, by table."""
    failed = [
        *(table for name in failed_names(report, "page") for table in _MADE_BY.get(name, ())),
        *(name for name in failed_names(report, "table") if name in _WHOLE),
    ]
    return dict.fromkeys(failed, "not known: a query failed")


def _named(name: str | None, option: str, quoted: Callable[[str], str]) -> dict[str, Any]:
    """Return a name, and the option of ``kanalyze requests`` that selects it."""
    line = {"label": shown(name)}
    if name:
        line["option"] = escape(f"{option} {quoted(name)}")
    return line


def _literally(name: str) -> str:
    """Return a pattern that matches exactly this name, quoted for a shell."""
    return shlex.quote(_GLOB.sub(r"[\g<0>]", name))


def _clients(names: list[dict[str, Any]], clients: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name = {line["client_id"]: line for line in clients if not line["other"]}
    lines = []
    for name in names:
        line = _named(name["name"], "--client-id", _literally)
        client = by_name.get(name["name"])
        for field, column in (("software", "software"), ("client_ips", "from")):
            line[column] = _some(client, field)
        line["user"] = _some(client, "principals")
        lines.append(line)
    return lines


def _some(line: Mapping[str, Any] | None, field: str) -> str:
    if line is None:
        return MISSING
    texts = [shown(text) for text in line[field]]
    return listed(texts, _MAX_SOFTWARE, more=line[f"more_{field}"])


def _api(line: Mapping[str, Any]) -> dict[str, Any]:
    name, key = line["api_name"], line["api_key"]
    api = {"label": api_label(name, key, line["wire"]), "kind": _KINDS.get(name, "")}
    if name:
        api["option"] = escape(f"--api {shlex.quote(name)}")
    return api


def _version(line: Mapping[str, Any]) -> str:
    return "unknown" if line["api_version"] is None else str(line["api_version"])


def _us(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1000


def _with(
    columns: Mapping[str, list[Any]], names: Collection[str], text: Callable[[Any], Any]
) -> dict[str, list[Any]]:
    """Return columns, some of which are changed value by value."""
    return {
        name: list(map(text, values)) if name in names else values
        for name, values in columns.items()
    }


def _slow(line: Mapping[str, Any]) -> dict[str, Any]:
    parts = _parts(line)
    return {
        **{key: line[key] for key in ("client", "api", "broker", "group", "topics", "bucket")},
        "latency": line["latency_ns"],
        "api_label": f"{api_text(line['api_name'], line['api_key'])} v{line['api_version']}",
        "client_label": shown(line["client_id"]),
        "status": status_text(line["status"], line["error_name"]),
        "is_error": line["status"] == "error",
        "at": _us(line["request_start_ns"]),
        "parts": parts,
        "parts_label": _parts_text(parts),
        "packets": packets_text(line["request_packet"], line["response_packet"]),
        "packet": line["request_packet"],
        "connection": shown(line["connection"]),
    }


_MOST_LINES = 500
"""Lines of a table that is not summed up anew for a selection: as many as the page shows."""


def _flow(line: Mapping[str, Any]) -> dict[str, Any]:
    is_produce = line["direction"] == "produce"
    topic = f"id {shown(line['topic_id'])}" if line["topic"] is None else shown(line["topic"])
    who = shown(line["group_id"] or line["client_id"])
    return {
        "from": who if is_produce else topic,
        "to": topic if is_produce else who,
        "is_produce": is_produce,
        "records": line["records"],
        "bytes": line["bytes"],
    }


def _whole_line(name: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of a table of the whole capture, by the fields of the table's columns."""
    makes: dict[str, Callable[[Any], Any]] = {"text": shown, "time": _us}
    return {
        column.field: makes.get(column.kind, lambda value: value)(line[column.field])
        for column in _TABLES[name].columns
    }


_TABLES = {table.name: table for table in TABLES}
_WHOLE: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "flows": _flow,
    **{name: partial(_whole_line, name) for name in ("tls", "lag", "changes")},
}
"""The tables of the report that are of the whole capture, whatever is selected."""


def _parts(line: Mapping[str, Any]) -> list[int]:
    """Return the duration of each part in ns; the last part is latency that cannot be divided."""
    parts = [line[column] or 0 for column, _, _ in PARTS]
    if line["broker_time_ns"] is None:
        return [*parts, line["latency_ns"]]
    return [*parts, 0]


def _parts_text(parts: list[int]) -> str:
    """Return the longest parts as text, the longest first."""
    if parts[-1]:
        return "not known"
    named = zip((class_ for _, class_, _ in PARTS), parts, strict=False)
    longest = sorted(named, key=lambda part: -part[1])[:_MAX_PARTS_SHOWN]
    least = sum(parts) * _MIN_SHARE
    return ", ".join(f"{name} {duration_text(took)}" for name, took in longest if took > least)


def _event(line: Mapping[str, Any]) -> dict[str, Any]:
    begin = line["request_start_ns"]
    return {
        **{key: line[key] for key in ("group", "client", "api", "broker", "bucket")},
        "kind": _KINDS[line["api_name"]],
        "at": _us(begin),
        "took": max(line["end_ns"] - begin, 0),
        "status": status_text(line["status"], line["error_name"]),
        "is_error": line["status"] == "error",
        "packet": line["request_packet"],
    }
