"""JSON Schema of a comparison, with a description of each field.

In: nothing. Out: :data:`COMPARISON_SCHEMA`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.queries.json_schema.parts import (
    count,
    document,
    integer,
    listed,
    number,
    ref,
    struct,
    text,
    truth,
)
from kanalyze.queries.json_schema.report import EXTENT, FAILED_QUERIES, FILTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.queries.json_schema.parts import Schema

__all__ = ["COMPARISON_SCHEMA"]

_OF_REPORT = "missing if the side is a report"
_NOT_TESTED = "not tested"
_TEXT = {"type": "string"}
_OF_PACKETS = ("packets", "captured_bytes", "wire_bytes", "dropped_packets")
_SIDE = struct(
    "one side: the input and its time",
    {
        "made_of": text(
            f"what was read; {', '.join(_OF_PACKETS)} are {_OF_REPORT}", choices=("rows", "report")
        ),
        **EXTENT,
        "filter": FILTER,
        "requests": count("requests"),
        "span_ns": count("from the first request to the last", unit="ns", null="unknown"),
        "requests_per_s": number("requests per second", null="the side is shorter than a second"),
        "slices": count("number of slices of time in the test", null=_NOT_TESTED),
        "slice_s": number(
            "mean of the seconds with requests in a slice", unit="s", null=_NOT_TESTED
        ),
    },
    optional=_OF_PACKETS,
)


def _pair(meaning: str, item: Schema) -> Schema:
    return listed(f"{meaning}, of A and of B", item, length=2)


_RATES = _pair(
    "requests per second",
    number("requests per second", null="the side is shorter than a second"),
)
_IDENTITY = {
    "by": text("what the requests have in common", choices=("api", "client", "topic", "broker")),
    "api": text("the API, with the protocol if it is kafka-0.7"),
    "name": text(
        "client, topic or broker; UUIDs in client ids are *", null="by is api, or there is no name"
    ),
}


def _measure(names: Iterable[str], figures: dict[str, Schema]) -> Schema:
    return struct(
        "one figure",
        {
            "measure": text("which", choices=names),
            **figures,
            "chance": number(
                "probability that any difference is as large by chance, if there is none",
                null=_NOT_TESTED,
            ),
            "chance_alone": number(
                "the same, if this were the only difference tested", null=_NOT_TESTED
            ),
        },
    )


_NO_INTERVAL = "not tested, or may be chance, or too few bootstrap samples have the figure"
_LATENCY = _measure(
    ("p50", "p90", "p99"),
    {
        "a": count("the quantile of A", unit="ns"),
        "b": count("the quantile of B", unit="ns"),
        "ratio": number("b / a", null="a is 0"),
        "low": number("lower end of the 95 % interval of the ratio", null=_NO_INTERVAL),
        "high": number("upper end of the 95 % interval of the ratio", null=_NO_INTERVAL),
    },
)
_STATUS = _measure(
    ("errors", "unanswered", "throttled", "unread"),
    {
        "a": number(
            "share of the requests of A that a response is due to, 0 to 1; of errors and throttled "
            "without the requests whose response was not read (unread)"
        ),
        "b": number("the same of B"),
        "difference": number("b - a"),
        "low": number("lower end of the 95 % interval of the difference", null=_NO_INTERVAL),
        "high": number("upper end of the 95 % interval of the difference", null=_NO_INTERVAL),
    },
)
_CHANGE = struct(
    "requests that differ",
    {
        **_IDENTITY,
        "requests": _pair("requests", count("requests")),
        "requests_per_s": _RATES,
        "measures": listed("the figures that differ", {"anyOf": [_LATENCY, _STATUS]}),
        "as_much_for": listed(
            "other lines that differ as much, because they have the same requests or some of them",
            struct("who", {"by": _IDENTITY["by"], "name": _IDENTITY["name"]}),
        ),
        "options": listed("options of kanalyze requests that show rows of B", _TEXT),
    },
)
_PRESENCE = struct(
    "something that only one side has",
    {
        "kind": text("what it is: API, API version, error, client, software, user, group, ..."),
        "name": text("its name"),
        "requests": count("requests with it"),
        "seconds": count("seconds in which it was seen", null="the side is a report"),
        "chance": number(
            "probability that only this side has it, if it were equally frequent on both",
            null=_NOT_TESTED,
        ),
        "may_be_chance": truth("whether chance is above settings.false_alarms; false: see chance"),
    },
)
_PER_REQUEST = "there are no requests, or it is unknown"
_LOAD = struct(
    "the load of one API",
    {
        "api": _IDENTITY["api"],
        "requests_per_s": _RATES,
        "request_bytes": _pair("bytes of a request", number("mean", unit="B", null=_PER_REQUEST)),
        "response_bytes": _pair(
            "bytes of responses, by requests", number("mean", unit="B", null=_PER_REQUEST)
        ),
        "waited": _pair(
            "share of requests that waited on purpose", number("of 1", null=_PER_REQUEST)
        ),
    },
)


def _changes(meaning: str) -> Schema:
    return listed(meaning, ref("change", "requests that differ"))


def _presences(meaning: str) -> Schema:
    return listed(meaning, ref("presence", "something that only one side has"))


_COMPARISON = {
    "schema": {**integer("version of this schema"), "const": 1},
    "kanalyze_version": text("version of kanalyze that wrote it"),
    "a": ref("side", "before"),
    "b": ref("side", "after"),
    "settings": struct(
        "the smallest differences that are listed",
        {
            "at_least": number("ratio of latencies, or of shares of failures"),
            "least_ns": count("of latency", unit="ns"),
            "least_share": number("difference of the shares of failed requests, 0 to 1"),
            "false_alarms": number("probability that any difference is reported by chance"),
        },
    ),
    "tested": truth("whether differences were tested for chance; false: any of them may be chance"),
    "not_tested": text("why differences were not tested", null="they were tested"),
    "differences_tested": count("number of figures that were tested"),
    "slower": _changes("what became slower, sorted by the lower bound of the difference"),
    "faster": _changes("what became faster, sorted in the same way"),
    "fails_more": _changes("what fails more often, sorted in the same way"),
    "fails_less": _changes("what fails less often, sorted in the same way"),
    "may_be_chance": _changes("differences that are large enough, but may be chance"),
    "new": _presences("what only B has"),
    "gone": _presences("what only A has"),
    "alike": count("lines (an API, or a client, topic or broker of one) without a difference"),
    "too_few": listed(
        "lines with too few requests to be compared",
        struct("one line", {**_IDENTITY, "requests": _pair("requests", count("requests"))}),
    ),
    "load": listed("the load of each API, most requests first", _LOAD),
    "limited": truth("whether lines were left out because there were too many"),
    "failed_queries": FAILED_QUERIES,
}

COMPARISON_SCHEMA = document(
    "A comparison of kanalyze",
    struct("what kanalyze compare --format json writes", _COMPARISON, optional=("failed_queries",)),
    {"side": _SIDE, "change": _CHANGE, "presence": _PRESENCE},
)
