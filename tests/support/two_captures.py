"""Rows of two captures with known differences: traffic made by seed, with chosen faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.compare.chance import slices_of
from kanalyze.queries.compare.comparison import Thresholds, compare_sides
from kanalyze.queries.compare.sides import active_seconds, side_of_rows
from kanalyze.queries.database import Database
from kanalyze.spec.rows.requests import ErrorItem
from kanalyze.tables.quality import CaptureQuality
from tests.support.rows import START_NS, partition, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.spec.rows.requests import Row

CLIENTS = {"billing": "orders", "shop": "orders", "search": "clicks", "mail": "mails"}
"""Clients that produce and fetch, and their topics."""
APIS = {"Produce": 0, "Fetch": 1}
CODES = [ErrorItem("orders", 0, 6, "NOT_LEADER_OR_FOLLOWER")]


def traffic(
    seed: int,
    *,
    seconds: float = 40,
    per_s: float = 100,
    slow: dict[tuple[str, str], float] | None = None,
    failing: dict[tuple[str, str], float] | None = None,
    bursts_per_s: float = 0.05,
) -> list[Row]:
    """Return rows in order of time: heavy-tailed latencies, with bursts in which all are slow.

    Args:
        seed: seed of all random numbers.
        seconds: how long it goes on.
        per_s: requests per second.
        slow: times as slow, by client and API.
        failing: share of errors, by client and API; 0.5 % for the others.
        bursts_per_s: pauses of a broker per second, half a second long on average.
    """
    draw = np.random.default_rng(seed)
    many = draw.poisson(per_s * seconds)
    times = np.sort(draw.random(many)) * seconds
    latency_ms = 4 * np.exp(draw.normal(0, 0.6, many))
    for begin in draw.random(draw.poisson(bursts_per_s * seconds)) * seconds:
        end = begin + draw.exponential(0.5)
        is_in_burst = (times >= begin) & (times < end)
        latency_ms[is_in_burst] += (end - times[is_in_burst]) * 1000
    clients = draw.choice(list(CLIENTS), many)
    apis = draw.choice(list(APIS), many)
    lots = draw.random(many)
    rows = []
    for time_s, took_ms, client, api, lot in zip(
        times.tolist(), latency_ms.tolist(), clients.tolist(), apis.tolist(), lots.tolist(),
        strict=True,
    ):  # fmt: skip
        who = (client, api)
        is_error = lot < (failing or {}).get(who, 0.005)
        start_ns = START_NS + int(time_s * 1e9)
        took_ns = int(took_ms * (slow or {}).get(who, 1) * 1e6)
        rows.append(
            row(
                client_id=client,
                api_name=api,
                api_key=APIS[api],
                request_start_ns=start_ns,
                request_end_ns=start_ns,
                response_start_ns=start_ns + took_ns,
                response_end_ns=start_ns + took_ns,
                latency_ns=took_ns,
                total_time_ns=took_ns,
                status="error" if is_error else "ok",
                errors=CODES if is_error else [],
                partitions=[partition(CLIENTS[client], error_code=6 if is_error else 0)],
            )
        )
    return rows


def compare_rows(
    a: Sequence[Row], b: Sequence[Row], thresholds: Thresholds | None = None
) -> dict[str, Any]:
    """Return the comparison of two lists of rows."""
    with _database(a) as first, _database(b) as second:
        many = slices_of(active_seconds(first), active_seconds(second)) or (None, None)
        sides = [
            side_of_rows(database, CaptureQuality(), {}, slices)
            for database, slices in zip((first, second), many, strict=True)
        ]
    return compare_sides(sides[0], sides[1], thresholds or Thresholds())


def _database(rows: Sequence[Row]) -> Database:
    maker = BatchMaker()
    database = Database(max_memory_bytes=1 << 28, threads=1)
    database.create("requests", maker.schema)
    database.insert("requests", maker.of_rows(rows))
    return database
