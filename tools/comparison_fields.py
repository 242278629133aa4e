"""What a comparison is, as JSON: each of its fields, once.

In: nothing. Out: :func:`comparison_fields`, and :func:`comparison_parts`, which it refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.spec.fields import fields_of
from tools.report_fields import FINDING, MORE_SHARED

if TYPE_CHECKING:
    from kanalyze.spec.fields import JsonField

__all__ = ["comparison_fields", "comparison_parts"]

_NO_INTERVAL = "not tested, or may be chance, or too few bootstrap samples have the figure"
_PER_REQUEST = "there are no requests, or it is unknown"
_SHARED = {
    **MORE_SHARED,
    "identity": """
        by text(api|client|topic|broker) what the requests have in common
        api text the API, with the protocol if it is kafka-0.7
        name text? client, topic or broker; UUIDs in client ids are *; null: by is api, or there \
            is no name
    """,
    "requests": """
        requests pair requests, of A and of B
            - count requests
    """,
    "rates": """
        requests_per_s pair requests per second, of A and of B
            - number? requests per second; null: the side is shorter than a second
    """,
    "chances": """
        chance number? probability that any difference is as large by chance, if there is none; \
            null: not tested
        chance_alone number? the same, if this were the only difference tested; null: not tested
    """,
}
_COMPARISON = f"""
schema constant(1) version of this schema
kanalyze_version text version of kanalyze that wrote it
a @side before
b @side after
settings object the smallest differences that are listed
    at_least number ratio of latencies, or of shares of failures
    least_ns count[ns] of latency
    least_share number difference of the shares of failed requests, 0 to 1
    false_alarms number probability that any difference is reported by chance
tested bool whether differences were tested for chance; false: any of them may be chance
not_tested text? why differences were not tested; null: they were tested
differences_tested count number of figures that were tested
slower list what became slower, sorted by the lower bound of the difference
    - @change requests that differ
faster list what became faster, sorted in the same way
    - @change requests that differ
fails_more list what fails more often, sorted in the same way
    - @change requests that differ
fails_less list what fails less often, sorted in the same way
    - @change requests that differ
may_be_chance list differences that are large enough, but may be chance
    - @change requests that differ
new list what only B has
    - @presence something that only one side has
gone list what only A has
    - @presence something that only one side has
new_findings list findings of B that A does not have, whatever their figures are, the most severe \
        first; empty if a side is a report without findings
    - @finding one thing that is wrong
gone_findings list findings of A that B does not have
    - @finding one thing that is wrong
alike count lines (an API, or a client, topic or broker of one) without a difference
too_few list(one line) lines with too few requests to be compared
    ...identity
    ...requests
    largest object? the latency that differs most, if it is large enough; it may be chance; null: \
        none is, or it is unknown
        measure text(p50|p90|p99|max) which
        a count[ns] of A
        b count[ns] of B
        ratio number? b / a; null: a is 0
judged bool false: there are too few requests, or too short a time, to judge any difference
load list(the load of one API) the load of each API, most requests first
    api text the API, with the protocol if it is kafka-0.7
    ...rates
    request_bytes pair bytes of a request, of A and of B
        - number[B]? mean; null: {_PER_REQUEST}
    response_bytes pair bytes of responses, by requests, of A and of B
        - number[B]? mean; null: {_PER_REQUEST}
    waited pair share of requests that waited on purpose, of A and of B
        - number? of 1; null: {_PER_REQUEST}
limited bool whether lines were left out because there were too many
...failed_queries
...names
"""
_PARTS = f"""
side object one side: the input and its time
    made_of text(rows|report) what was read; packets, captured_bytes, wire_bytes, \
        dropped_packets are missing if the side is a report
    ...captures
    ...packets?
    ...times
    ...dropped_packets?
    ...filter
    requests count requests
    span_ns count[ns]? from the first request to the last; null: unknown
    requests_per_s number? requests per second; null: the side is shorter than a second
    slices count? number of slices of time in the test; null: not tested
    slice_s number[s]? mean of the seconds with requests in a slice; null: not tested
change object requests that differ
    ...identity
    ...requests
    ...rates
    measures list the figures that differ
        - object one figure
            measure text(p50|p90|p99) which
            a count[ns] the quantile of A
            b count[ns] the quantile of B
            ratio number? b / a; null: a is 0
            low number? lower end of the 95 % interval of the ratio; null: {_NO_INTERVAL}
            high number? upper end of the 95 % interval of the ratio; null: {_NO_INTERVAL}
            ...chances
        - object one figure
            measure text(errors|unanswered|throttled|unread) which
            a number share of the requests of A that a response is due to, 0 to 1; of errors \
                and throttled without the requests whose response was not read (unread)
            b number the same of B
            difference number b - a
            low number? lower end of the 95 % interval of the difference; null: {_NO_INTERVAL}
            high number? upper end of the 95 % interval of the difference; null: {_NO_INTERVAL}
            ...chances
    as_much_for list(who) other lines that differ as much, because they have the same \
        requests or some of them
        by text(api|client|topic|broker) what the requests have in common
        name text? client, topic or broker; UUIDs in client ids are *; null: by is api, or \
            there is no name
    options texts options of kanalyze requests that show rows of B
presence object something that only one side has
    kind text what it is: API, API version, error, client, software, user, group, ...
    name text its name
    requests count requests with it
    seconds count? seconds in which it was seen; null: the side is a report
    chance number? probability that only this side has it, if it were equally frequent on \
        both; null: not tested
    may_be_chance bool whether chance is above settings.false_alarms; false: see chance
"""


def comparison_fields() -> tuple[JsonField, ...]:
    """Return the fields of a comparison, in the order in which JSON has them."""
    return fields_of(_COMPARISON, _SHARED)


def comparison_parts() -> tuple[JsonField, ...]:
    """Return the objects that a comparison refers to as ``@side`` and so on."""
    return (*fields_of(_PARTS, _SHARED), FINDING)
