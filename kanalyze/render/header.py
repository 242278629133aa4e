"""The head of the report: what was captured, how completely, and how much.

In: a summary. Out: lines.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kanalyze.common.zones import UTC, Zone
from kanalyze.render.lines import Line
from kanalyze.render.missing import failed_texts, no_kafka_text, undecrypted_text
from kanalyze.render.units import (
    at_least,
    bytes_text,
    captures_text,
    count_text,
    counted,
    duration_text,
    moment_text,
    percent_text,
    records_text,
    shown,
)
from kanalyze.spec.filters import FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WARNING = "bold yellow"


def header_lines(summary: dict[str, Any], zone: Zone = UTC) -> Iterator[Line]:
    """Yield the lines before the first table; they may be longer than a terminal is wide."""
    has_untimed = summary["quality"]["untimed_packets"] > 0
    yield from _captured(summary["capture"], zone, has_untimed=has_untimed)
    yield from _described(summary["quality"])
    yield from _connections(summary["quality"])
    yield from _tls(summary["tls"])
    yield from _conditions(summary["filter"])
    yield from _searched(summary.get("findings_span"), zone)
    if summary["totals"] is not None:
        yield from _totals(summary["totals"])
    for warning in _warnings(summary):
        yield Line(f"WARNING: {warning}", style=_WARNING)
    yield from _anomalies(summary["quality"]["anomalies"], is_filtered=bool(summary["filter"]))


def brief_header_lines(summary: dict[str, Any], zone: Zone = UTC) -> Iterator[Line]:
    """Yield what was captured, the number of requests, and the first warning, in a line each."""
    yield from islice(_captured(summary["capture"], zone, has_untimed=False), 2)
    if summary["totals"] is not None:
        yield from islice(_totals(summary["totals"]), 1)
    for warning in islice(_warnings(summary), 1):
        yield Line(f"WARNING: {warning}", style=_WARNING)


def _captured(capture: dict[str, Any], zone: Zone, *, has_untimed: bool) -> Iterator[Line]:
    yield Line(captures_text(capture["captures"]), style="bold")
    if capture["first_time_ns"] is None:
        yield Line("no packet has a time" if has_untimed else "no packets")
        if not has_untimed:
            return
    else:
        first_ns, last_ns = capture["first_time_ns"], capture["last_time_ns"]
        yield Line(
            f"{moment_text(first_ns, zone)} to {moment_text(last_ns, zone)} "
            f"{zone.label(first_ns)} ({duration_text(capture['duration_ns'])})"
        )
    packets = counted(capture["packets"], "packet")
    yield Line(f"{packets}, {bytes_text(capture['wire_bytes'])} on the wire")


def _searched(span: Mapping[str, int] | None, zone: Zone) -> Iterator[Line]:
    """Yield which requests of an archive that grows were searched for findings; none if all."""
    if span is not None:
        first, last = (
            moment_text(span[f"{side}_time_ns"], zone)[:19] for side in ("first", "last")
        )
        yield Line(
            f"findings are searched in the latest runs alone, {first} to {last} "
            f"{zone.short_label(span['last_time_ns'])}; those before are as earlier runs found them"
        )


def _described(quality: dict[str, Any]) -> Iterator[Line]:
    """Yield the capture files' own metadata: interfaces, names, comments."""
    if quality["interfaces"]:
        yield Line(f"captured on {'; '.join(_some(quality['interfaces']))}")
    for text in _some(quality["comments"]):
        yield Line(f"comment: {text}")
    if quality["packet_comments"]:
        yield Line(f"{counted(quality['packet_comments'], 'comment')} on packets")


def _tls(lines: list[dict[str, Any]]) -> Iterator[Line]:
    """Yield a line with the TLS versions, and how many connections were decrypted or failed."""
    versions: dict[str, int] = {}
    for line in lines:
        name = line["tls_version"] or "of an unknown version"
        versions[name] = versions.get(name, 0) + line["connections"]
    texts = [f"{count_text(count)} {shown(name)}" for name, count in sorted(versions.items())]
    for name in ("decrypted", "failed"):
        count = sum(line[name] for line in lines)
        texts += [f"{count_text(count)} {name}"] if count else []
    if texts:
        yield Line(f"connections with TLS: {', '.join(texts)}")


def _some(texts: dict[str, int]) -> list[str]:
    """Return the first few texts, and how many more there are."""
    names = list(texts)
    listed = [shown(name, _LONGEST_TEXT) for name in names[:_MAX_TEXTS]]
    unlisted = len(names) - len(listed)
    return [*listed, f"and {count_text(unlisted)} more"] if unlisted > 0 else listed


_MAX_TEXTS, _LONGEST_TEXT = 3, 200


def _connections(quality: dict[str, Any]) -> Iterator[Line]:
    kinds = [
        f"{count_text(quality[f'{kind}_connections'])} {name}"
        for kind, name in (("kafka", "Kafka"), ("tls", "TLS"), ("other", "other"))
        if quality[f"{kind}_connections"]
    ]
    guesses = {name: n for name, n in quality["other_protocols"].items() if name != "tls"}
    if guesses:
        kinds[-1] += f" ({', '.join(_by_count(guesses, _PROTOCOLS))})"
    text = counted(quality["connections"], "TCP connection")
    yield Line(f"{text}: {', '.join(kinds)}" if kinds else text)
    if quality["tunnels"]:
        inside = ", ".join(_by_count(quality["tunnels"]))
        yield Line(f"inside tunnels, by TCP packets: {inside}")
    if quality["other_packets"]:
        others = ", ".join(_by_count(quality["other_packets"]))
        yield Line(f"packets not analysed: {others}")
    duplicate_capture_bytes = quality["duplicate_bytes"] - quality["network_duplicate_bytes"]
    troubles = [
        f"{bytes_text(quality['retransmitted_bytes'])} retransmitted"
        if quality["retransmitted_bytes"]
        else "",
        f"{bytes_text(duplicate_capture_bytes)} captured more than once"
        if duplicate_capture_bytes
        else "",
        f"{bytes_text(quality['network_duplicate_bytes'])} duplicated by the network"
        if quality["network_duplicate_bytes"]
        else "",
        f"{counted(quality['out_of_order_packets'], 'packet')} out of order"
        if quality["out_of_order_packets"]
        else "",
    ]
    if any(troubles):
        yield Line(", ".join(filter(None, troubles)))
    share = quality["decoded_share"]
    if share is not None:
        yield Line(
            f"{percent_text(share)} of {bytes_text(quality['kafka_bytes'])} of Kafka decoded"
        )


_PROTOCOLS = {"none": "without payload"}
"""Longer names of protocols."""
_MAX_NAMES = 6


def _by_count(counts: dict[str, int], words: dict[str, str] | None = None) -> list[str]:
    """Return ``NUMBER NAME`` for the most frequent names, then the sum of all others."""
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    texts = [
        f"{count_text(count)} {(words or {}).get(name, shown(name))}"
        for name, count in items[:_MAX_NAMES]
    ]
    others = sum(count for _, count in items[_MAX_NAMES:])
    return [*texts, f"{count_text(others)} of other kinds"] if others else texts


_CONDITIONS = {each.field: each.label for each in FILTERS.values()}
_CONDITIONS |= {"host": "host", "filter": "packets"}  # filters of packets, of kanalyze live
"""The text for each filter."""


def _conditions(conditions: dict[str, Any]) -> Iterator[Line]:
    """Yield the filter, so that readers do not take the report for all of the capture."""
    if not conditions:
        return
    texts = [condition_text(name, value) for name, value in conditions.items()]
    yield Line(f"only requests that match: {'; '.join(texts)}", style="bold")


def condition_text(name: str, value: Any) -> str:
    """Return a condition of a filter, such as ``API Produce or Fetch``."""
    if name == "saved":
        return f"as saved: {'; '.join(condition_text(*item) for item in value.items())}"
    if value is True:
        return _CONDITIONS[name]
    if name == "slower_than_ns":
        return f"slower than {duration_text(value)}"
    values = value if isinstance(value, list) else [value]
    return f"{_CONDITIONS[name]} {' or '.join(shown(str(item)) for item in values)}"


def _totals(totals: dict[str, Any]) -> Iterator[Line]:
    if not totals["rows"]:
        return
    words = {
        "ok": "ok",
        "error": "with errors",
        "one_way": "one-way",
        "unanswered": "unanswered",
        "malformed": "malformed",
    }
    states = [f"{count_text(totals[key])} {word}" for key, word in words.items() if totals[key]]
    yield Line(
        f"{counted(totals['requests'], 'request')} "
        f"({bytes_text(totals['request_bytes'])}), "
        f"{counted(totals['responses'], 'response')} ({bytes_text(totals['response_bytes'])}): "
        f"{', '.join(states) or 'none'}"
    )
    refused = totals["refused_records"]
    yield Line(
        f"records produced {_records(totals, 'produced', _acknowledged(totals))}"
        + (f" and {count_text(refused)} refused" if refused else "")
        + f", fetched {_records(totals, 'fetched')}"
    )
    if totals["throttled"]:
        waited = duration_text(totals["throttle_time_ms"] * 1_000_000)
        yield Line(f"{counted(totals['throttled'], 'response')} throttled, {waited} in all")


def _acknowledged(totals: dict[str, Any]) -> str:
    """Return how many produced records the brokers acknowledged; empty if all of them."""
    if totals["acknowledged_records"] == totals["produced_records"]:
        return ""
    names = ("acknowledged", "one_way", "unanswered")
    parts = [
        f"{count_text(totals[f'{name}_records'])} {name.replace('_', '-')}"
        for name in names
        if totals[f"{name}_records"] or name == "acknowledged"
    ]
    return "; " + ", ".join(parts)


def _records(totals: dict[str, Any], direction: str, more: str = "") -> str:
    count, known = totals[f"{direction}_records"], totals[f"{direction}_records_known"]
    size_bytes = totals[f"{direction}_record_bytes"]
    size = at_least(bytes_text(size_bytes), known=known)
    if not count and not known:
        return "an unknown number" + (f" ({size}{more})" if size_bytes else "")
    return f"{records_text(count, known=known)} ({size}{more})"


def refused_texts(quality: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many connections were refused, and how many no broker answered."""
    for name, verb in (("refused", "refused by"), ("unanswered", "without an answer from")):
        if quality[f"{name}_connections"]:
            count = counted(quality[f"{name}_connections"], "connection")
            yield f"{count} {verb} {_who(quality[f'{name}_by'])}"


def unread_texts(quality: Mapping[str, Any]) -> Iterator[str]:
    """Yield the broker ports whose connections were not recognised as Kafka, and a hint."""
    for port, total in quality["unread_ports"].items():
        yield (
            f"{counted(total['connections'], 'connection')} on port {port} not recognised as "
            f"Kafka, {bytes_text(total['bytes'])} in {counted(total['packets'], 'packet')}: "
            f"use --port {port} to read it as Kafka"
        )


def untimed_texts(quality: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many packets have no time, and what they lack therefore."""
    if quality["untimed_packets"]:
        yield (
            f"{counted(quality['untimed_packets'], 'packet')} without a time, as in pcapng's "
            "Simple Packet Blocks: what they are part of has no times and no latencies, and "
            "matches no --since or --until"
        )


def discarded_texts(quality: Mapping[str, Any]) -> Iterator[str]:
    """Yield how much TCP data was captured but not read, and why.

    Late packets without payload are not counted, because the last acknowledgment of a connection is
    often late.
    """
    if quality["late_bytes"]:
        yield f"{bytes_text(quality['late_bytes'])} sent after the end of a connection, not read"
    if quality["out_of_window_packets"]:
        yield (
            f"{counted(quality['out_of_window_packets'], 'packet')} "
            f"({bytes_text(quality['out_of_window_bytes'])}) with a sequence number outside the "
            f"window, not read"
        )
    if quality["before_start_bytes"]:
        yield (
            f"{bytes_text(quality['before_start_bytes'])} before the first byte seen of a "
            f"connection, not read"
        )


_UNKNOWN_TOTALS = {"rows": None, "orphan_response": None}


def _warnings(summary: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each reason to doubt the figures that follow."""
    quality, totals = summary["quality"], summary["totals"] or _UNKNOWN_TOTALS
    yield from failed_texts(summary)
    if totals["rows"] == 0 and not quality["kafka_connections"]:
        yield no_kafka_text(summary["capture"]["packets"], quality)
    else:
        if totals["rows"] == 0:
            yield "no Kafka requests match"
        undecrypted = undecrypted_text(quality["tls_connections"], quality["tls_outcomes"])
        if undecrypted is not None:
            yield undecrypted
    yield from untimed_texts(quality)
    if quality["dropped_packets"]:
        yield f"{counted(quality['dropped_packets'], 'packet')} dropped while capturing"
    yield from refused_texts(quality)
    if quality["lost_bytes"]:
        yield f"{bytes_text(quality['lost_bytes'])} sent but not in the capture"
    if quality["snapped_bytes"]:
        yield f"{bytes_text(quality['snapped_bytes'])} cut off by the snap length"
    yield from discarded_texts(quality)
    yield from _undecoded(quality)
    yield from _unchecked(quality)
    yield from unread_texts(quality)
    if quality["lost_datagrams"]:
        yield f"{counted(quality['lost_datagrams'], 'IP packet')} with missing fragments"
    if quality["unreadable_packets"]:
        yield f"{counted(quality['unreadable_packets'], 'packet')} with unreadable headers"
    if totals["orphan_response"]:
        yield f"{counted(totals['orphan_response'], 'response')} without a request"
    yield from _negative_latencies(summary["apis"])
    if summary["limited"]:
        yield f"too many {', '.join(summary['limited'])} to list each: the rest is summed up"


def _negative_latencies(apis: list[dict[str, Any]]) -> Iterator[str]:
    latencies = [line["latency_ns"] for api in apis for line in (api, api["waited"])]
    least_ns = min((latency["min"] for latency in latencies if latency["count"]), default=0)
    if least_ns < 0:
        yield (
            f"negative latencies, down to {duration_text(least_ns)}: responses captured before "
            "their requests (two capture points, or packets out of order)"
        )


def _who(counts: dict[str, int]) -> str:
    """Return the endpoints; if there are several, each with its count."""
    return ", ".join(counts) if len(counts) == 1 else ", ".join(_by_count(counts))


def _undecoded(quality: dict[str, Any]) -> Iterator[str]:
    share = quality["decoded_share"]
    if share is None or share >= 1:
        return
    parts = [
        f"{bytes_text(quality[name])} {word}"
        for name, word in (
            ("undecoded_bytes", "in messages that could not be decoded to the end"),
            ("skipped_bytes", "skipped because frame boundaries were lost"),
        )
        if quality[name]
    ]
    why = f": {', '.join(parts)}" if parts else ""
    yield f"{percent_text(1 - share)} of the Kafka bytes not decoded{why}"


def _unchecked(quality: dict[str, Any]) -> Iterator[str]:
    """Yield how many batches of records are wrong, and how many could not be checked."""
    if quality["wrong_batches"]:
        of = count_text(quality["checked_batches"])
        yield f"{count_text(quality['wrong_batches'])} of {of} record batches have a wrong CRC"
    unchecked = quality["record_batches"] - quality["checked_batches"]
    if unchecked:
        of = f"{count_text(unchecked)} of {count_text(quality['record_batches'])} record batches"
        yield f"the CRC of {of} was not checked: bytes are missing"


def _anomalies(anomalies: dict[str, dict[str, int]], *, is_filtered: bool) -> Iterator[Line]:
    """Yield the anomalies, which are those of all packets, whatever the filter of requests."""
    if not anomalies:
        return
    items = sorted(anomalies.items(), key=lambda item: (-item[1]["count"], item[0]))
    kinds = [f"{kind} {count_text(total['count'])}" for kind, total in items]
    where = " in the whole capture, of all clients" if is_filtered else ""
    yield Line(f"anomalies{where}: {', '.join(kinds)}", style="dim")
