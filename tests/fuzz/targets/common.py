"""What the targets share: one catalog, one set of decoders. Building them is no part of a stage."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from kanalyze.analysis.extract import Extractors
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import Decoders, compile_decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.protocol.compiler import Decoder
    from kanalyze.protocol.language import Message
    from kanalyze.protocol.projection import Projection

__all__ = ["CATALOG", "DECODERS", "EXTRACTORS", "TABLE", "decoders_made_before"]

CATALOG = Catalog()
DECODERS = Decoders(CATALOG)
EXTRACTORS = Extractors(CATALOG)
TABLE = [
    (api.key, version)
    for api in CATALOG.apis
    for version in range(api.versions.lowest, api.versions.highest + 1)
]
"""Every API and version."""

_MADE: dict[tuple[str, int, Projection], Decoder] = {}


def _made_before(
    _decoders: Decoders, message: Message, version: int, projection: Projection
) -> Decoder:
    key = (message.name, version, projection)
    found = _MADE.get(key)
    if found is None:
        found = _MADE[key] = compile_decoder(message, version, projection)
    return found


@contextmanager
def decoders_made_before() -> Iterator[None]:
    """Let whoever makes decoders of built-in messages have those that were made before.

    Making those of a capture takes a hundred times as long as reading a short one.
    """
    with patch.object(Decoders, "_make", _made_before):
        yield
