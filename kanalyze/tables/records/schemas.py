"""Schemas of a registry: which schema a key or a value has, and what it says by it.

In: schemas as the REST interface of Confluent's Schema Registry writes them; blocks of rows of
records. Out: the same blocks, with subjects and versions, and with JSON in place of bytes.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.tables.columns.block import (
    Ints,
    Lists,
    RowBlock,
    Words,
    ints_from,
    texts_in,
    words_from,
)
from kanalyze.tables.records.schema_decoders import (
    FORMATS,
    SchemaError,
    SchemaText,
    decoder_of,
    require_libraries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.tables.columns.block import ColumnValues
    from kanalyze.tables.records.values import ShownValues

_TEXT_KINDS = {"avsc": "AVRO", "proto": "PROTOBUF"}
FILE_ENDINGS = (".json", ".jsonl", *(f".{ending}" for ending in _TEXT_KINDS))
"""Endings of the files that have schemas."""
_PREFIX_BYTES = 5
"""The byte 0 and the id: Confluent's wire format."""
_GUID_BYTES = 17
"""The byte 1 and the GUID, in a header."""
_PARTS = ("key", "value")
_LARGEST_ID = (1 << 31) - 1


class Schema(NamedTuple):
    """One version of a subject.

    Attributes:
        id: the number by which records name the schema.
        guid: the other name of the schema, in headers of records.
        subject: such as ``orders-value``; None if the file does not say.
        version: of the subject.
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        text: the schema.
        references: subjects and versions that the text needs, by the name that it has for them.
    """

    id: int
    guid: str | None
    subject: str | None
    version: int | None
    kind: str
    text: str
    references: dict[str, tuple[str, int]]


# -- files ----------------------------------------------------------------------------------------


def parse_schemas(name: str, text: str) -> list[Schema]:
    """Return the schemas in a file of a registry.

    A file is an answer of the registry (``/schemas``, ``/subjects/SUBJECT/versions/VERSION``,
    ``/schemas/ids/ID``), or has an object of this kind in each line, as values of the topic
    ``_schemas`` have it. An answer of ``/schemas/ids/ID`` has no id: then the name of the file is
    its id. ``ID.avsc`` and ``ID.proto`` are the text of a schema alone.

    Raises UsageError for anything else; the text does not name the file.
    """
    stem, _, ending = name.rpartition(".")
    if ending in _TEXT_KINDS:
        return [Schema(_id_of(stem), None, None, None, _TEXT_KINDS[ending], text, {})]
    return [_schema_of(item, stem) for item in _objects(text)]


def _objects(text: str) -> list[Any]:
    try:
        content = json.loads(text)
    except ValueError:
        try:
            content = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise UsageError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise UsageError("nested too deeply") from error
    items = content if isinstance(content, list) else [content]
    if not items:
        raise UsageError("has no schema")
    return items


def _id_of(stem: str) -> int:
    if not (stem.isascii() and stem.isdigit() and int(stem) <= _LARGEST_ID):
        raise UsageError("the name of a file with a schema alone is the schema's id")
    return int(stem)


def _schema_of(item: Any, stem: str) -> Schema:
    text = item.get("schema") if isinstance(item, dict) else None
    if not isinstance(text, str):
        raise UsageError('not a schema of a registry: an object with the text "schema"')
    kind = item.get("schemaType") or "AVRO"  # what a registry leaves out
    if kind not in FORMATS:
        raise UsageError(f"unknown schemaType: {kind!r}")
    number = item.get("id")
    try:
        references = {
            str(reference["name"]): (str(reference["subject"]), int(reference["version"]))
            for reference in item.get("references") or ()
        }
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError("a reference is an object with name, subject and version") from error
    return Schema(
        id=number if _is_number(number) else _id_of(stem),
        guid=item["guid"].lower() if isinstance(item.get("guid"), str) else None,
        subject=item["subject"] if isinstance(item.get("subject"), str) else None,
        version=item["version"] if _is_number(item.get("version")) else None,
        kind=kind,
        text=text,
        references=references,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_ID


# -- columns --------------------------------------------------------------------------------------

_Decoder: TypeAlias = "Callable[[bytes], str]"
_Key: TypeAlias = "int | str"
"""The id of a schema, or its GUID."""
_MAX_REFERENCES = 32
"""Limit of schemas that refer to one another."""


class SchemaColumns:
    """Adds to rows of records what the schemas of a registry say of them."""

    def __init__(self, schemas: Sequence[Schema]) -> None:
        """Take the schemas; each is compiled when a record first has it.

        Raises ModuleNotFoundError if the library for one of them is not installed.
        """
        self._named: dict[_Key, list[Schema]] = {}
        self._versions: dict[tuple[str | None, int | None], Schema] = {}
        for schema in schemas:
            for key in (schema.id, schema.guid):
                if key is not None:
                    self._named.setdefault(key, []).append(schema)
            self._versions[schema.subject, schema.version] = schema
        require_libraries(schema.kind for schema in schemas)
        self._decoders: dict[_Key, _Decoder | None] = {}
        self._reasons: dict[_Key, str] = {}
        self._undecoded: Counter[_Key] = Counter()

    def of_block(self, block: RowBlock, show: ShownValues | None) -> RowBlock:
        """Return the rows with subjects and versions; with ``show``, values are decoded too.

        Values that are not text must be base64, and none may be cut: ``show`` cuts them, and writes
        what is not decoded.
        """
        columns = dict(block.columns)
        topics = _texts(block, "topic")
        for part in _PARTS:
            keys = list(_schema_keys(block, part))
            schemas = [
                self._schema(key, topic, part) for key, topic in zip(keys, topics, strict=True)
            ]
            columns[f"{part}_schema_subject"] = words_from(
                [schema and schema.subject for schema in schemas]
            )
            columns[f"{part}_schema_version"] = ints_from(
                [schema and schema.version for schema in schemas]
            )
            if show is not None:
                texts, forms = self._shown(block, part, keys, show)
                columns[part], columns[f"{part}_encoding"] = words_from(texts), words_from(forms)
        return RowBlock(len(block), columns)

    def problems(self) -> Iterator[str]:
        """Yield a line for each schema by which values could not be decoded."""
        for key, count in self._undecoded.items():
            schema = self._named[key][0]
            about = f" ({schema.subject}, version {schema.version})" if schema.subject else ""
            values = "1 value is" if count == 1 else f"{count:,} values are"
            yield f"schema {key}{about}: {values} not decoded: {self._reasons[key]}"

    def _schema(self, key: _Key | None, topic: str | None, part: str) -> Schema | None:
        """Return the schema of a record; of several subjects with it, the one of the topic."""
        schemas = None if key is None else self._named.get(key)
        if schemas is None:
            return None
        own = f"{topic}-{part}"  # Confluent's TopicNameStrategy
        return next((schema for schema in schemas if schema.subject == own), schemas[0])

    def _shown(
        self, block: RowBlock, part: str, keys: Sequence[_Key | None], show: ShownValues
    ) -> tuple[list[str | None], list[str | None]]:
        """Return the texts of keys or values, and how each is written."""
        texts = _texts(block, part)
        forms = _texts(block, f"{part}_encoding")
        headers = _Headers(block, f"__{part}_schema_id")
        for at, (key, text, form) in enumerate(zip(keys, texts, forms, strict=True)):
            if text is None or form not in _WHOLE:
                continue
            data = _bytes(text, form)
            decoded = None if key is None else self._json(key, data, headers, at)
            if decoded is None:
                texts[at], forms[at] = show.text(data)
            else:
                texts[at], forms[at] = show.text(decoded[0].encode())[0], decoded[1]
        return texts, forms

    def _json(self, key: _Key, data: bytes, headers: _Headers, at: int) -> tuple[str, str] | None:
        """Return a value as JSON, and its format; None if it cannot be decoded."""
        if key not in self._named:
            return None
        kind = self._named[key][0].kind
        if isinstance(key, int) and data.startswith(b"\0" + key.to_bytes(4, "big")):
            data = data[_PREFIX_BYTES:]
        elif kind == "PROTOBUF":
            # Which message of the schema it is stands where the schema's name does.
            data = (
                headers.value(at)[_PREFIX_BYTES if isinstance(key, int) else _GUID_BYTES :] + data
            )
        try:
            return self._decoder(key)(data), FORMATS[kind]
        except SchemaError as error:
            self._undecoded[key] += 1
            self._reasons.setdefault(key, " ".join(str(error).split()))
            return None

    def _decoder(self, key: _Key) -> _Decoder:
        """Return what decodes values by a schema; raises SchemaError if it cannot be used."""
        if key not in self._decoders:
            self._decoders[key] = None
            schema = self._named[key][0]
            references: dict[str, str] = {}
            self._add_references(schema, references, 0)
            text = SchemaText(schema.kind, schema.text, references)
            self._decoders[key] = decoder_of(text)
        decoder = self._decoders[key]
        if decoder is None:
            raise SchemaError(self._reasons[key])
        return decoder

    def _add_references(self, schema: Schema, references: dict[str, str], depth: int) -> None:
        """Add what a schema refers to, what that refers to first; raises SchemaError."""
        if depth > _MAX_REFERENCES:
            raise SchemaError("its references lead to itself")
        for name, (subject, version) in schema.references.items():
            needed = self._versions.get((subject, version))
            if needed is None:
                raise SchemaError(f"refers to {subject}, version {version}, which no file has")
            self._add_references(needed, references, depth + 1)
            references.setdefault(name, needed.text)


class _Headers:
    """The headers of one name in the rows of a block."""

    def __init__(self, block: RowBlock, name: str) -> None:
        headers = block.columns["headers"]
        assert isinstance(headers, Lists)
        self._offsets = headers.offsets
        self._names, self._values, self._forms = (
            _texts_of(headers.fields[field]) for field in ("key", "value", "encoding")
        )
        self._name = name

    def value(self, at: int) -> bytes:
        """Return the last value in a row; nothing if there is none."""
        for item in range(self._offsets[at + 1] - 1, self._offsets[at] - 1, -1):
            value, form = self._values[item], self._forms[item]
            if self._names[item] == self._name and value is not None and form in _WHOLE:
                return _bytes(value, form)
        return b""


_WHOLE = ("text", "base64")
"""How bytes are written of which nothing is lost."""


def _bytes(text: str, form: str | None) -> bytes:
    return text.encode() if form == "text" else a2b_base64(text)


def _schema_keys(block: RowBlock, part: str) -> Iterator[_Key | None]:
    """Yield by what each key or value names its schema; None if it names none."""
    ids = block.columns[f"{part}_schema_id"]
    assert isinstance(ids, Ints)
    valid = repeat(1) if ids.valid is None else ids.valid
    guids = _texts(block, f"{part}_schema_guid")
    for number, has_number, guid in zip(ids.values, valid, guids, strict=False):
        yield guid if guid is not None else number if has_number else None


def _texts(block: RowBlock, name: str) -> list[str | None]:
    return _texts_of(block.columns[name])


def _texts_of(column: ColumnValues) -> list[str | None]:
    assert isinstance(column, Words)
    return texts_in(column)
