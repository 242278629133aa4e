"""JSON Schema of a comparison, which says what each of its fields is.

In: nothing. Out: :data:`COMPARISON_SCHEMA`. This module must not know how sides are compared.
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
from kanalyze.queries.json_schema.report import EXTENT, FILTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.queries.json_schema.parts import Schema

__all__ = ["COMPARISON_SCHEMA"]

_OF_REPORT = "not there where the side is a report"
_NOT_TESTED = "not tested"
_TEXT = {"type": "string"}
_OF_PACKETS = ("packets", "captured_bytes", "wire_bytes", "dropped_packets")
_SIDE = struct(
    "one side: what it is, and when",
    {
        "made_of": text(
            f"what was read; {', '.join(_OF_PACKETS)} are {_OF_REPORT}", choices=("rows", "report")
        ),
        **EXTENT,
        "filter": FILTER,
        "requests": count("requests"),
        "span_ns": count("from the first request to the last", unit="ns", null="not known"),
        "requests_per_s": number("requests a second", null="there is less than a second"),
        "slices": count("slices of time that the test counts by", null=_NOT_TESTED),
        "slice_s": number("seconds with requests in a slice, mean", unit="s", null=_NOT_TESTED),
    },
    optional=_OF_PACKETS,
)


def _pair(meaning: str, each: Schema) -> Schema:
    return listed(f"{meaning}, of A and of B", each, many=2)


_RATES = _pair("requests a second", number("requests a second", null="there is less than a second"))
_WHO = {
    "by": text("what the requests have in common", choices=("api", "client", "topic", "broker")),
    "api": text("the API, with the protocol where it is not that of today"),
    "name": text(
        "client, topic or broker; UUIDs in client ids are *", null="by is api, or no name"
    ),
}


def _measure(names: Iterable[str], figures: dict[str, Schema]) -> Schema:
    return struct(
        "one figure",
        {
            "measure": text("which", choices=names),
            **figures,
            "chance": number(
                "probability that anything at all is said to differ as much where nothing does",
                null=_NOT_TESTED,
            ),
            "chance_alone": number("the same, had nothing else been looked at", null=_NOT_TESTED),
        },
    )


_NO_INTERVAL = "not tested, or may be chance, or too few draws have the figure"
_LATENCY = _measure(
    ("p50", "p90", "p99"),
    {
        "a": count("the quantile of A", unit="ns"),
        "b": count("the quantile of B", unit="ns"),
        "ratio": number("b / a", null="a is 0"),
        "low": number("of the ratio: lower end of its interval of 95 %", null=_NO_INTERVAL),
        "high": number("of the ratio: upper end of its interval of 95 %", null=_NO_INTERVAL),
    },
)
_STATUS = _measure(
    ("errors", "unanswered", "throttled"),
    {
        "a": number("share of 1 of the requests of A that a response is due to"),
        "b": number("the same of B"),
        "difference": number("b - a"),
        "low": number("of the difference: lower end of its interval of 95 %", null=_NO_INTERVAL),
        "high": number("of the difference: upper end of its interval of 95 %", null=_NO_INTERVAL),
    },
)
_CHANGE = struct(
    "requests that differ",
    {
        **_WHO,
        "requests": _pair("requests", count("requests")),
        "requests_per_s": _RATES,
        "measures": listed("the figures that differ", {"anyOf": [_LATENCY, _STATUS]}),
        "as_much_for": listed(
            "others that differ as much, as they are the same requests or a part of them",
            struct("who", {"by": _WHO["by"], "name": _WHO["name"]}),
        ),
        "options": listed("options of kanalyze requests that show rows of B", _TEXT),
    },
)
_PRESENCE = struct(
    "something that one side alone has",
    {
        "kind": text("what it is: API, API version, error, client, software, user, group, ..."),
        "name": text("its name"),
        "requests": count("requests with it"),
        "seconds": count("seconds in which it was seen", null="the side is a report"),
        "chance": number(
            "probability that it is seen on this side alone, had it been as frequent on both",
            null=_NOT_TESTED,
        ),
        "may_be_chance": truth("whether chance is above settings.false_alarms; false: see chance"),
    },
)
_PER_REQUEST = "there are no requests, or it is not known"
_LOAD = struct(
    "what was asked of one API",
    {
        "api": _WHO["api"],
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
    return listed(meaning, ref("presence", "something that one side alone has"))


_COMPARISON = {
    "schema": {**integer("version of this schema"), "const": 1},
    "kanalyze_version": text("version of kanalyze that wrote it"),
    "a": ref("side", "before"),
    "b": ref("side", "after"),
    "settings": struct(
        "the least difference that matters",
        {
            "at_least": number("times as slow, or as often"),
            "least_ns": count("of latency", unit="ns"),
            "least_share": number("of requests that fail, as a difference of shares of 1"),
            "false_alarms": number("probability that anything is said to differ by chance alone"),
        },
    ),
    "tested": truth("whether differences were tested for chance; false: any of them may be chance"),
    "not_tested": text("why not", null="they were tested"),
    "differences_tested": count("figures that were tested"),
    "slower": _changes("what got slower, those first that differ most at the least"),
    "faster": _changes("what got faster, likewise"),
    "fails_more": _changes("what fails more, likewise"),
    "fails_less": _changes("what fails less, likewise"),
    "may_be_chance": _changes("what differs enough to matter, and may be chance"),
    "new": _presences("what B alone has"),
    "gone": _presences("what A alone has"),
    "alike": count("lines (an API, or a client, topic or broker of one) without a difference"),
    "too_few": listed(
        "lines with too few requests to be compared",
        struct("one line", {**_WHO, "requests": _pair("requests", count("requests"))}),
    ),
    "load": listed("what was asked, by API, most requests first", _LOAD),
    "limited": truth("whether there were more lines than were compared"),
}

COMPARISON_SCHEMA = document(
    "A comparison of kanalyze",
    struct("what kanalyze compare --format json writes", _COMPARISON),
    {"side": _SIDE, "change": _CHANGE, "presence": _PRESENCE},
)
