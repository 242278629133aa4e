"""Makes decoders: one for a message, a version and the selected fields.

In: a definition, a version, a projection. Out: a :data:`Decoder`.

For a message ``A, B [C, D]`` with all fields selected a decoder returns ``(a, [(c, d), ...])``; see
:data:`Decoder`. :mod:`kanalyze.kafka.codec.interpreter` gives the same, slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.errors import UsageError
from kanalyze.kafka.codec.decoder import BodyDecoder
from kanalyze.kafka.codec.machine import Programs
from kanalyze.kafka.codec.program import Program, write_program
from kanalyze.kafka.codec.projection import Projection, select
from kanalyze.kafka.codec.values import TapeCursor
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.layout import Layout
from kanalyze.kafka.schema.versions import NONE
from kanalyze.kafka.wire import Source

if TYPE_CHECKING:
    from kanalyze.kafka.codec.projection import Selection
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.schema.schema_ast import MessageSpec, Struct

__all__ = ["Decoder", "Decoders", "compile_decoder", "program_of"]

Decoder: TypeAlias = Callable[[bytes | memoryview, int, int, Source | None], tuple[Any, int]]
"""``decode(view, pos, base, source) -> (values, end)``.

``view`` holds bytes of one frame and none after its end; the body starts at ``view[pos]``; ``base``
is the frame position of ``view[0]``. ``source`` gives the bytes of the frame that are not in
``view``; None if all are. ``end`` is the frame position after the body.

``values`` is a tuple of the selected fields in the order of the definition, the same for every
version: a field that the version doesn't have gets its default. A struct becomes such a tuple, an
array a list, null None, a UUID 16 bytes, text a ``str`` (bytes that are no UTF-8 as ``\\xNN``),
records a :class:`~kanalyze.kafka.records.batch_headers.RecordsSummary` or their bytes.

With :data:`Projection.ALL`, ``values`` is a dict of the fields that the version has, by Kafka's
JSON names. Tagged fields are in it only if they are on the wire; those that the definition doesn't
know are ``(tag, bytes)`` pairs under ``_taggedFields``.

Raises Truncated if the bytes end first, Malformed if they break the grammar, MissingBytes if the
capture lacks them; no other exception, whatever the bytes.
"""


_BUILT_IN = Catalog()
_MAX_PROGRAMS = 1 << 12
"""Number of cached programs of built-in messages: all versions of all messages, with about two
projections."""


class Decoders:
    """The decoders made so far; to be used from one thread.

    The programs of built-in messages, which cannot be changed, are written once in a process: all
    tables of decoders share them.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._programs = Programs()
        self._shared_texts = TapeCursor()
        self._decoders: dict[tuple[int, Kind, int, Projection], BodyDecoder] = {}
        self._superseded: dict[tuple[int, Kind, int, Projection], BodyDecoder | None] = {}
        self._older: dict[tuple[int, Kind, int, Projection, bool], BodyDecoder] = {}

    def get(self, api_key: int, kind: Kind, version: int, projection: Projection) -> BodyDecoder:
        """Return the decoder for an API's requests or responses in one version.

        Made on the first call. Raises UsageError for an API or a version that the catalog doesn't
        have, and for a path that the message doesn't have.
        """
        key = (api_key, kind, version, projection)
        decoder = self._decoders.get(key)
        if decoder is None:
            if self._catalog.api(api_key) is None:
                raise UsageError(f"no API has the key {api_key}")
            if self._catalog.is_built_in(api_key, kind):
                program = _built_in_program(api_key, kind, version, projection)
            else:
                message = self._catalog.message(api_key, kind)
                program = program_of(message, version, projection)
            decoder = self._decoders[key] = self._make(program)
        return decoder

    def superseded(
        self, api_key: int, kind: Kind, version: int, projection: Projection
    ) -> BodyDecoder | None:
        """Return the decoder for the layout of :meth:`Catalog.superseded`; None if it has none."""
        key = (api_key, kind, version, projection)
        if key not in self._superseded:
            exists = self._catalog.superseded(api_key, kind, version) is not None
            self._superseded[key] = self._make(_superseded_program(*key)) if exists else None
        return self._superseded[key]

    def older(
        self, api_key: int, kind: Kind, version: int, projection: Projection, *, is_superseded: bool
    ) -> BodyDecoder:
        """Return what loads the bodies in states of the last format; it decodes no message.

        Its values are those of :meth:`get` or :meth:`superseded`, with the defaults of the fields
        that were not selected yet.
        """
        superseded = self._catalog.superseded(api_key, kind, version) if is_superseded else None
        key = (api_key, kind, version, projection, is_superseded)
        if key not in self._older:
            message = superseded or self._catalog.message(api_key, kind)
            older = _without_newer(message, projection)
            self._older[key] = self._make(program_of(older, version, projection))
        return self._older[key]

    def _make(self, program: Program) -> BodyDecoder:
        return BodyDecoder(program, self._programs, self._shared_texts)


def compile_decoder(message: MessageSpec, version: int, projection: Projection) -> Decoder:
    """Make the decoder of one message; raises as :meth:`Decoders.get` does."""
    return BodyDecoder(program_of(message, version, projection), Programs())


@lru_cache(maxsize=_MAX_PROGRAMS)
def _built_in_program(api_key: int, kind: Kind, version: int, projection: Projection) -> Program:
    return program_of(_BUILT_IN.message(api_key, kind), version, projection)


@lru_cache(maxsize=_MAX_PROGRAMS)
def _superseded_program(api_key: int, kind: Kind, version: int, projection: Projection) -> Program:
    message = _BUILT_IN.superseded(api_key, kind, version)
    assert message is not None  # users cannot define superseded layouts: all are built in
    return program_of(message, version, projection)


def _without_newer(message: MessageSpec, projection: Projection) -> MessageSpec:
    """Return a message of which no version has the fields that are newly selected."""
    before = Projection.of(*(path for path in projection.paths if path not in projection.newer))
    struct = _without(message.struct, select(message, projection), select(message, before))
    return message._replace(struct=struct)


def _without(struct: Struct, selection: Selection, before: Selection) -> Struct:
    fields = []
    for field in struct.fields:
        if field.name not in selection:
            fields.append(field)
        elif field.name not in before:
            fields.append(field._replace(versions=NONE))
        elif field.struct is None:
            fields.append(field)
        else:
            inner = _without(field.struct, selection[field.name], before[field.name])
            fields.append(field._replace(struct=inner))
    return struct._replace(fields=tuple(fields))


def program_of(message: MessageSpec, version: int, projection: Projection) -> Program:
    """Write the program of one message; raises as :meth:`Decoders.get` does."""
    if not message.valid_versions.contains(version):
        known = message.valid_versions
        raise UsageError(f"{message.name} has no version {version}; there are: {known}")
    selection = select(message, projection)
    return write_program(Layout(message, version), selection, projection)
