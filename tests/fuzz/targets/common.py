"""Shared by the targets: one catalog, one set of decoders, as building them is no stage."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.codec.machine import Programs
from kanalyze.kafka.codec.values import BodyDecoder, TapeCursor
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.tables.requests.extract import Extractors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.codec.values import Program

CATALOG = Catalog()
DECODERS = Decoders(CATALOG)
EXTRACTORS = Extractors(CATALOG)
TABLE = [
    (api.key, version)
    for api in CATALOG.apis
    for version in range(api.versions.lowest, api.versions.highest + 1)
]
"""Every API and version."""

_KNOWN = TapeCursor()
_MADE: dict[int, tuple[Program, BodyDecoder]] = {}
"""By the identity of the program, which is kept so that no other object gets the same identity."""


def _made_before(_decoders: Decoders, program: Program) -> BodyDecoder:
    found = _MADE.get(id(program))
    if found is None:
        found = _MADE[id(program)] = program, BodyDecoder(program, Programs(), _KNOWN)
    return found[1]


@contextmanager
def decoders_made_before() -> Iterator[None]:
    """Reuse decoders of built-in messages that were made before.

    Making the decoders of a capture takes a hundred times as long as reading a short one.
    """
    with patch.object(Decoders, "_make", _made_before):
        yield
