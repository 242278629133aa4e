"""Filters on rows that know the names of APIs, and whose messages' bytes they select.

In: conditions as a user wrote them, a catalog. Out: a
:class:`~kanalyze.tables.filters.RowFilter`. This module must not know what is filtered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.tables.filters import RowFilter

if TYPE_CHECKING:
    from kanalyze.kafka.session.message_bodies import KeepsBytes

__all__ = ["api_names", "keeps_bytes", "make_filter"]


def make_filter(catalog: Catalog | None = None, **conditions: Any) -> RowFilter:
    """Return a filter that knows the names of APIs: those of ``catalog``, or the built-in ones.

    Other arguments as ``RowFilter.parse``.
    """
    names = api_names(catalog or Catalog()) if conditions.get("apis") else None
    return RowFilter.parse(api_names=names, **conditions)


def keeps_bytes(row_filter: RowFilter, catalog: Catalog) -> KeepsBytes:
    """Return a predicate of API keys that is true for the APIs a filter selects.

    It is what an analysis takes as ``keep`` to decode every field of their messages.
    """
    if not (row_filter.api_names or row_filter.api_keys):
        return _always
    # Produce and Fetch have the same keys in Kafka 0.7.
    keys = {name.lower(): key for name, key in api_names(catalog).items()}
    return {*row_filter.api_keys, *map(keys.get, row_filter.api_names)}.__contains__


def _always(_: int) -> bool:
    return True


def api_names(catalog: Catalog) -> dict[str, int]:
    """Return the keys of the APIs in a catalog, and of those of Kafka 0.7, by name."""
    from kanalyze.kafka.v07.messages import RequestType  # only for those who name an API

    # Those of Kafka 0.7 by name only: its request types mean other APIs in later versions.
    names = {kind.api_name: int(kind) for kind in RequestType}
    return names | {api.name: api.key for api in catalog.apis}
