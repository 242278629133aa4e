"""Reads only the names of topics, and their ids, in messages.

In: exchanges with decoded fields. Out: ids and names. It replaces
:class:`~kanalyze.tables.requests.extract.Extractors` when a capture is searched for names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.codec.values import TapeCursor
from kanalyze.tables.requests.body_walk import BodyWalk
from kanalyze.tables.requests.field_selection import field_roles, projection_of
from kanalyze.tables.requests.summaries import ExchangeSummary, PartitionColumns

if TYPE_CHECKING:
    from kanalyze.kafka.codec.values import EncodedFields
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.decode_plans import MessageKind
    from kanalyze.kafka.session.exchange import Exchange

__all__ = ["NameReader"]

_NOTHING = Projection.of()


class NameReader:
    """Finds topic names in requests and responses that have both the name and the id."""

    def __init__(self, catalog: Catalog) -> None:
        """Make a reader; the definitions of an API are read when it is first needed."""
        self._catalog = catalog
        self._cursor = TapeCursor()
        self._walks: dict[tuple[int, str], BodyWalk | None] = {}

    def needed_fields(self, api_key: int, kind: MessageKind) -> Projection:
        """Return the fields to decode; none for most messages, which have no names."""
        if self._walk(api_key, kind) is None:
            return _NOTHING
        return projection_of(self._catalog.message(api_key, kind))

    def names(self, exchange: Exchange) -> list[tuple[bytes, str]]:
        """Return the topic ids and names in an exchange, in wire order."""
        names: list[tuple[bytes, str]] = []
        if exchange.api_key is not None and exchange.wire == "kafka":
            request, response = exchange.request, exchange.response
            names += self._names_in(
                exchange.api_key, "request", request.encoded_fields if request else None
            )
            names += self._names_in(
                exchange.api_key, "response", response.encoded_fields if response else None
            )
        return names

    def _names_in(
        self, api_key: int, kind: MessageKind, encoded: EncodedFields | None
    ) -> list[tuple[bytes, str]]:
        walk = None if encoded is None else self._walk(api_key, kind)
        if walk is None or encoded is None:
            return []
        summary = ExchangeSummary()
        walk.read(encoded, summary, PartitionColumns(), PartitionColumns())
        return summary.names

    def _walk(self, api_key: int, kind: MessageKind) -> BodyWalk | None:
        if self._catalog.api(api_key) is None:
            return None
        key = (api_key, kind)
        if key not in self._walks:
            message = self._catalog.message(api_key, kind)
            level = field_roles(message, projection_of(message))
            walk = BodyWalk(level, self._cursor, is_request=kind == "request")
            self._walks[key] = walk if level.finds_names else None
        return self._walks[key]
