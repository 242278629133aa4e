"""The wires that have no definitions: what outputs need of their exchanges, one thing to call.

In: the ``wire`` of an exchange that is not ``kafka``. Out: an :class:`OtherWire`. Kafka 0.7 is the
only one so far; its modules are imported when there is an exchange of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.codec.interpreter import TraceNode
    from kanalyze.kafka.records.types import DecompressionLimits
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.wire import WireApi, WirePartition, WireRecords


class OtherWire(Protocol):
    """What rows, records and decoded messages are made of, for exchanges of one wire."""

    def api_keys(self) -> dict[str, int]:
        """Return the keys of its APIs by their names in rows."""

    def api(self, key: int | None) -> WireApi:
        """Return what rows say of a type of request; None is that of an orphan response."""

    def partitions(self, exchange: Exchange) -> Iterable[WirePartition]:
        """Return the partitions of an exchange; none if its request was not decoded."""

    def records_fields(self, exchange: Exchange) -> list[WireRecords] | None:
        """Return the fields with records of an exchange; None if they were not decoded."""

    def records_in(self, data: bytes, offset: int, limits: DecompressionLimits | None) -> Any:
        """Return the records of a field, as a :class:`~kanalyze.kafka.records.batches.RecordSet`.

        ``offset`` is the position of its first byte in the log.
        """

    def trace(self, exchange: Exchange, kind: Kind) -> list[TraceNode]:
        """Return the fields of one message, the size prefix first; raises WireError.

        Raises MissingBytes if the message's bytes were not kept, or not captured.
        """


def other_wire(name: str) -> OtherWire:
    """Return a wire by its name in rows; raises KeyError for ``kafka``, and for an unknown one."""
    if name != "kafka-0.7":
        raise KeyError(name)
    from kanalyze.kafka.v07 import exchanges  # imported late: rare

    return exchanges


def other_wires() -> list[OtherWire]:
    """Return all of them."""
    return [other_wire("kafka-0.7")]
