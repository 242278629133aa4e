"""Makes decoders: one straight-line function for a message, a version and the wanted fields.

In: a definition, a version, a projection. Out: a :data:`Decoder`, built once by writing its source
and compiling it. The source holds nothing from the wire, and from definitions only names that the
loader let pass and numbers. Must not know where the bytes come from.

What a decoder gives for a message ``A, B [C, D]`` with all of it wanted is ``(a, [(c, d), ...])``;
see :data:`Decoder`. The reader in :mod:`kanalyze.protocol.reference` says the same, slowly.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.errors import UsageError
from kanalyze.protocol.codegen import DecoderSource
from kanalyze.protocol.layout import Layout
from kanalyze.protocol.primitives import (
    check_frame_holds,
    read_raw_records,
    read_tags,
    read_unsigned_varint,
    read_uuids,
    skip_tags,
)
from kanalyze.protocol.projection import Projection, select
from kanalyze.protocol.records import peek_records
from kanalyze.protocol.wire import Malformed, Source, Truncated

if TYPE_CHECKING:
    from kanalyze.protocol.catalog import Catalog, Kind
    from kanalyze.protocol.language import Message

__all__ = ["Decoder", "Decoders", "compile_decoder", "decoder_source"]

Decoder: TypeAlias = Callable[[bytes | memoryview, int, int, Source | None], tuple[Any, int]]
"""``decode(view, pos, base, source) -> (values, end)``.

``view`` holds bytes of one frame and none after its end; the body starts at ``view[pos]``; ``base``
is the frame position of ``view[0]``. ``source`` gives the bytes of the frame that ``view`` doesn't
hold; None when it holds all there are. ``end`` is the frame position after the body.

``values`` is a tuple of the wanted fields in the order of the definition, the same for every
version: a field the version doesn't have is its default. A struct is such a tuple, an array a list,
null None, a UUID 16 bytes, text ``str`` (what is no UTF-8 as ``\\xNN``), records a
:class:`~kanalyze.protocol.records.RecordsSummary` or their bytes.

With :data:`Projection.ALL` it is a dict by Kafka's JSON names of the fields that the version has;
tagged fields where they are on the wire only, those that the definition doesn't know as
``(tag, bytes)`` pairs under ``_taggedFields``.

Raises Truncated when the bytes end first. With a source, only records and bytes fields may go past
the end of ``view``: the view must be larger then. Raises Malformed for what breaks the grammar,
MissingBytes for what the capture lacks; no other exception, whatever the bytes.
"""


class Decoders:
    """The decoders made so far."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._made: dict[tuple[int, Kind, int, Projection], Decoder] = {}
        self._superseded: dict[tuple[int, Kind, int, Projection], Decoder | None] = {}
        self._by_source: dict[tuple[str, tuple[tuple[str, str], ...]], Decoder] = {}
        """By text and formats. Compiling takes three times as long as writing, and many versions of
        a message are alike in what is wanted of them."""

    def get(self, api_key: int, kind: Kind, version: int, projection: Projection) -> Decoder:
        """Return the decoder for an API's requests or responses in one version.

        Made on the first call, which takes some milliseconds. Raises UsageError for an API or a
        version that the catalog doesn't have, and for a path that the message doesn't have.
        """
        key = (api_key, kind, version, projection)
        decoder = self._made.get(key)
        if decoder is None:
            if self._catalog.api(api_key) is None:
                raise UsageError(f"no API has the key {api_key}")
            message = self._catalog.message(api_key, kind)
            decoder = self._made[key] = self._make(message, version, projection)
        return decoder

    def superseded(
        self, api_key: int, kind: Kind, version: int, projection: Projection
    ) -> Decoder | None:
        """Return the decoder for the layout of :meth:`Catalog.superseded`; None for none."""
        key = (api_key, kind, version, projection)
        if key not in self._superseded:
            message = self._catalog.superseded(api_key, kind, version)
            self._superseded[key] = (
                None if message is None else self._make(message, version, projection)
            )
        return self._superseded[key]

    def _make(self, message: Message, version: int, projection: Projection) -> Decoder:
        source = _write(message, version, projection)
        key = (source.text, tuple(source.formats.items()))
        decoder = self._by_source.get(key)
        if decoder is None:
            decoder = self._by_source[key] = _compile(source, message, version)
        return decoder


def compile_decoder(message: Message, version: int, projection: Projection) -> Decoder:
    """Make the decoder of one message; raises as :meth:`Decoders.get` does."""
    return _compile(_write(message, version, projection), message, version)


def _compile(source: DecoderSource, message: Message, version: int) -> Decoder:
    namespace: dict[str, Any] = {
        "Malformed": Malformed,
        "StructError": struct_module.error,
        "Truncated": Truncated,
        "check_frame_holds": check_frame_holds,
        "peek_records": peek_records,
        "read_raw_records": read_raw_records,
        "read_tags": read_tags,
        "read_uuids": read_uuids,
        "skip_tags": skip_tags,
        "unpack_from": struct_module.unpack_from,
        "varint": read_unsigned_varint,
    }
    for name, layout in source.formats.items():
        namespace[name] = struct_module.Struct(layout).unpack_from
    code = compile(source.text, f"<decoder of {message.name} version {version}>", "exec")
    exec(code, namespace)  # noqa: S102 - our own source, see the module's docstring
    decoder: Decoder = namespace["decode"]
    return decoder


def decoder_source(message: Message, version: int, projection: Projection) -> str:
    """Return the source that :func:`compile_decoder` compiles, for people."""
    return _write(message, version, projection).text


def _write(message: Message, version: int, projection: Projection) -> DecoderSource:
    if not message.valid_versions.contains(version):
        known = message.valid_versions
        raise UsageError(f"{message.name} has no version {version}; there are: {known}")
    selection = select(message, projection)
    return DecoderSource(Layout(message, version), selection, projection)
