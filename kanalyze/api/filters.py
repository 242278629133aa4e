"""Makes filters that know the names of APIs, and selects messages whose bytes to keep.

In: conditions as a user wrote them, a catalog. Out: a :class:`~kanalyze.tables.filters.RowFilter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.other_wires import other_wires
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.tables.filters import RowFilter

if TYPE_CHECKING:
    from kanalyze.kafka.session.message_bodies import KeepsBytes

__all__ = ["api_names", "keeps_bytes", "make_filter"]


def make_filter(catalog: Catalog | None = None, **conditions: Any) -> RowFilter:
    """Return a filter that knows the API names of ``catalog``, or the built-in ones.

    ``conditions`` are those of ``RowFilter.parse``.
    """
    names = api_names(catalog or Catalog()) if conditions.get("api") else None
    return RowFilter.parse(api_names=names, **conditions)


def keeps_bytes(row_filter: RowFilter, catalog: Catalog) -> KeepsBytes:
    """Return a predicate that is true for the keys of the APIs that a filter selects.

    An analysis takes it as ``keep``, to keep the bytes of their messages for decoding.
    """
    apis = row_filter.get("api")
    if apis is None:
        return _always
    # Produce and Fetch have the same API keys in Kafka 0.7.
    keys = {name.lower(): key for name, key in api_names(catalog).items()}
    return {*apis.keys, *map(keys.get, apis.lower_names)}.__contains__


def _always(_: int) -> bool:
    return True


def api_names(catalog: Catalog) -> dict[str, int]:
    """Return API keys by name, for the APIs of a catalog and those of other wires."""
    # Keys of other wires are those of other APIs here, so only names count.
    names = {name: key for wire in other_wires() for name, key in wire.api_keys().items()}
    return names | {api.name: api.key for api in catalog.apis}
