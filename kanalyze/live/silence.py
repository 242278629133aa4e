"""Brokers that answer nobody now, though several connections wait for them.

In: rows, as they come; requests in flight. Out: :class:`SilentBroker`.

A query finds that a broker stood still once it answers again, because a request becomes a row with
its response. This is what can be said before: requests that the broker does not hold back on
purpose have waited for some time on two connections or more, and in that time it has sent no
response to anyone. A broker that was never seen to answer is left out: its responses may not be
captured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.block import Words
from kanalyze.tables.columns.numpy_arrays import ints_of

if TYPE_CHECKING:
    from kanalyze.runtime.monitor import InFlight
    from kanalyze.tables.columns.block import RowBlock

_LEAST_CONNECTIONS: Final = 2
_MAX_BROKERS: Final = 10_000
"""Addresses are from the wire; beyond this number, those of the oldest responses are forgotten."""


class SilentBroker(NamedTuple):
    """A broker that answers nobody."""

    broker: Endpoint
    requests: int
    """Requests that wait, without those that it may hold back on purpose."""
    connections: int
    """Connections on which they wait."""
    since_ns: int
    """Unix time of the last response in ns."""


class BrokerResponses:
    """When each broker sent its last response."""

    def __init__(self) -> None:
        """Begin without responses."""
        self._last_ns: dict[Endpoint, int] = {}

    def add(self, rows: RowBlock) -> None:
        """Note the times of the responses of rows."""
        times = ints_of(rows.columns["response_start_ns"])
        rows_with_time = (
            np.arange(len(rows)) if times.valid is None else np.flatnonzero(times.valid)
        )
        ips, ports = rows.columns["broker_ip"], ints_of(rows.columns["broker_port"])
        assert isinstance(ips, Words)
        # In the order of times, so that the last of a broker replaces the others.
        order = rows_with_time[np.argsort(times.values[rows_with_time], kind="stable")]
        codes, numbers = np.asarray(ips.codes)[order], ports.values[order]
        keys = codes.astype(np.int64) << 16 | numbers
        _, last = np.unique(keys[::-1], return_index=True)
        for row in order[::-1][last].tolist():
            broker = Endpoint(ips.words[ips.codes[row]], int(ports.values[row]))
            time_ns = int(times.values[row])
            self._last_ns[broker] = max(time_ns, self._last_ns.get(broker, time_ns))
        if len(self._last_ns) > _MAX_BROKERS:
            latest = sorted(self._last_ns.items(), key=lambda item: item[1])
            self._last_ns = dict(latest[len(latest) // 2 :])

    def silent(self, in_flight: InFlight, before_ns: int) -> tuple[SilentBroker, ...]:
        """Return the brokers that answer nobody, those with most requests first.

        Args:
            in_flight: requests in flight; by broker, those that began before ``before_ns``.
            before_ns: Unix time in ns; a broker has answered nobody since then.
        """
        found = [
            SilentBroker(waiting.broker, waiting.requests, waiting.connections, last_ns)
            for waiting in in_flight.by_broker
            if waiting.connections >= _LEAST_CONNECTIONS
            and (last_ns := self._last_ns.get(waiting.broker)) is not None
            and last_ns < before_ns
        ]
        return tuple(sorted(found, key=lambda each: (-each.requests, str(each.broker))))
