"""Reads of messages only what topic ids are called.

In: the decoded values of exchanges. Out: ids and names. This module must not know what names are
for, nor how messages are read; it stands in for :class:`~kanalyze.analysis.extract.Extractors` when
a capture is searched for names and for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.analysis.interests import BodyWalk, projection_of
from kanalyze.protocol.projection import Projection

if TYPE_CHECKING:
    from kanalyze.connection.exchange import Exchange
    from kanalyze.connection.reader import Kind
    from kanalyze.protocol.catalog import Catalog

__all__ = ["NameReader"]

_NOTHING = Projection.of()


class NameReader:
    """Finds names of topics in requests and responses that have them beside their ids."""

    def __init__(self, catalog: Catalog) -> None:
        """Begin; the definitions of an API are looked at when it is first met."""
        self._catalog = catalog
        self._walks: dict[tuple[int, str], BodyWalk | None] = {}

    def wanted(self, api_key: int, kind: Kind) -> Projection:
        """Return the fields to read; most messages tell no names, and nothing is read of them."""
        if self._walk(api_key, kind) is None:
            return _NOTHING
        return projection_of(self._catalog.message(api_key, kind))

    def names(self, exchange: Exchange) -> list[tuple[bytes, str]]:
        """Return the topic ids and names in an exchange, in wire order."""
        found: list[tuple[bytes, str]] = []
        if exchange.api_key is not None and exchange.wire == "kafka":
            request, response = exchange.request, exchange.response
            self._add(exchange.api_key, "request", request.values if request else None, found)
            self._add(exchange.api_key, "response", response.values if response else None, found)
        return found

    def _add(self, api_key: int, kind: Kind, values: Any, found: list[tuple[bytes, str]]) -> None:
        if values:
            walk = self._walk(api_key, kind)
            if walk is not None:
                walk(values, [], found)

    def _walk(self, api_key: int, kind: Kind) -> BodyWalk | None:
        if self._catalog.api(api_key) is None:
            return None
        key = (api_key, kind)
        if key not in self._walks:
            walk = BodyWalk(self._catalog.message(api_key, kind))
            self._walks[key] = walk if walk.finds_names else None
        return self._walks[key]
