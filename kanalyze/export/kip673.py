r"""Exchanges as the broker's own request log writes them (KIP-673).

In: decoded exchanges, with the block of their rows. Out: lines of JSON. This module must not know
where they go, nor read bytes.

The forms are those of Kafka's ``JsonConverterGenerator`` and were checked against the request log
of a real broker, entry by entry:

- A message is an object with the fields that its version has, by the names of the newest
  definitions with a small first letter; a field that the version doesn't have is not written.
- Tagged fields are written only when they differ from their default, whether or not they are on
  the wire.
- null is null. Integers and booleans are themselves. float64 is a number; what JSON has no number
  for is the text ``NaN``, ``Infinity`` or ``-Infinity``.
- bytes are base64 (RFC 4648, padded); a UUID is URL-safe base64 without padding.
- Records are not written: their field ``records`` becomes ``recordsSizeInBytes``. Null records are
  ``"records": null``.
- Of Kafka 0.7, which has no such log, the names are those of its wire format.
- The response to a Produce with acks 0, which is never sent, is the empty text.
- ``requestHeader`` has no ``clientId`` in version 0 of the header, and ``requestApiKeyName`` is the
  name of Kafka's enumeration (``API_VERSIONS``).

Where the log of a broker says something else:

- Secrets are ``"[hidden]"`` (see :mod:`kanalyze.decoding.secrets`). The broker logs salts,
  salted passwords and the HMACs of delegation tokens as they are; of configurations it hides those
  that it doesn't know by name, which cannot be known from the wire.
- Records are sizes everywhere; the broker logs those of ShareFetch responses as an empty text.
- The broker logs a response that it made and could not send any more; here it is null.
- An Envelope stands as itself, its contents hidden; ``forwarded`` has the exchange inside, which is
  all that the broker logs of it.
- Text that is no UTF-8 has ``\xNN`` for the bytes that are not, where Java has U+FFFD.
- Names are those of the newest definitions: a broker of another release writes those of its own
  (``generationId`` of TxnOffsetCommit, ``generationIdOrMemberEpoch`` since 4.4).
- Unknown tagged fields, which the broker drops, are kept as ``unknownTaggedFields``.

Beside ``requestHeader``, ``request`` and ``response`` stand keys of our own:

- ``connection``, ``client``, ``broker`` and others of the row contract in lowerCamelCase; times are
  Unix times in ns.
- ``clientInformation`` as in the broker's log, null where the wire did not tell.
- ``requestProblem`` and ``responseProblem``, only where bytes were not decoded: ``kind`` (as in
  ``anomalies``), ``fieldPath`` in the names of the JSON, ``frameOffset`` of the first byte that was
  not decoded, ``rawSizeInBytes`` from there to the frame's end, ``reason``.
- ``responseHeader``, only where it has unknown tagged fields.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kanalyze.decoding.values import api_key_name
from kanalyze.export.column_texts import JsonTexts, WordTexts
from kanalyze.export.json_tape import Form, TapeJson, bytes_text, json_line
from kanalyze.export.lines import LineWriter
from kanalyze.kafka.schema.schema_ast import ZERO_UUID
from kanalyze.tables.columns.block import Words
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.decoding.bodies import (
        DecodedExchange,
        DecodedMessage,
        ForwardedExchange,
        Problem,
    )
    from kanalyze.decoding.secrets import RedactionPlan
    from kanalyze.kafka.codec.values import Shape
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Field, Struct
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["LogLines"]

_MOST_KNOWN = 4096
"""Headers, and client ids: both come from the wire."""


class LogLines:
    """Writes exchanges as lines of Kafka's request log; remembers forms and texts."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._wire_fields = _WireFields()
        self._json = TapeJson()
        self._forms: dict[Shape, Form] = {}
        self._heads: dict[tuple[int | None, int | None, str | None], str] = {}
        self._texts: dict[str, str] = {}

    def lines(
        self, exchanges: Sequence[Exchange], block: RowBlock, decoded: Iterable[DecodedExchange]
    ) -> Iterator[str]:
        """Give a line of ASCII for each exchange.

        Args:
            exchanges: the exchanges to write.
            block: their rows.
            decoded: their decoded messages; the next is decoded when the last was written.
        """
        names = block.columns["api_name"]
        assert isinstance(names, Words)
        wire_fields = self._wire_fields.of(block)
        for exchange, code, fact, found in zip(
            exchanges, names.codes, wire_fields, decoded, strict=True
        ):
            # Keys of Kafka 0.7 are others.
            name = names.words[code] if exchange.wire != "kafka" and code >= 0 else None
            yield f"{{{self._exchange(exchange, name, found)},{fact}}}"

    def _exchange(self, exchange: Exchange, name: str | None, decoded: DecodedExchange) -> str:
        """Return the members of the log's object for an exchange, without what the wire adds."""
        request, response = decoded.request, decoded.response
        head = self._head(
            exchange.api_key,
            exchange.api_version,
            exchange.correlation_id,
            exchange.client_id,
            request,
            name,
        )
        is_one_way = exchange.one_way and exchange.response is None
        answer = '""' if is_one_way else self._body(response)
        made = f'{head},"request":{self._body(request)},"response":{answer}'
        if decoded.forwarded is not None:
            made += f',"forwarded":{{{self._forwarded(decoded.forwarded)}}}'
        made += _problems(request, response)
        if response is not None and response.header_tags:
            made += f',"responseHeader":{{{_tags(response.header_tags)}}}'
        return made

    def _head(
        self,
        api_key: int | None,
        api_version: int | None,
        correlation_id: int | None,
        client_id: str | None,
        request: DecodedMessage | None,
        name: str | None = None,
    ) -> str:
        """Return the object of a request's header; null for unseen or unnamed values.

        ``name`` is that of an API which the catalog does not know by its key.
        """
        head = self._heads.get((api_key, api_version, name))
        if head is None:
            _make_room(self._heads)
            head = self._new_head(api_key, api_version, name)
            self._heads[api_key, api_version, name] = head
        number = "null" if correlation_id is None else correlation_id
        client = "null" if client_id is None else self._text(client_id)
        tags = ""
        if request is not None and request.header_tags:
            tags = f",{_tags(request.header_tags)}"
        return head % (number, client, tags)

    def _new_head(self, api_key: int | None, api_version: int | None, name: str | None) -> str:
        """Return what ``%`` makes a header of: correlation id, client id, tags."""
        client = ',"clientId":%s'
        if api_key is not None and api_version is not None:
            if self._catalog.request_header_version(api_key, api_version) == 0:
                client = "%.0s"  # an empty text, for any value
            api = self._catalog.api(api_key)
            name = name or (None if api is None else api.name)
        known = json_line(None if name is None else api_key_name(name)).replace("%", "%%")
        return (
            f'"requestHeader":{{"requestApiKey":{json_line(api_key)},'
            f'"requestApiVersion":{json_line(api_version)},"correlationId":%s{client},'
            f'"requestApiKeyName":{known}%s}}'
        )

    def _text(self, text: str) -> str:
        """Return a text that is likely to come again, as JSON."""
        known = self._texts.get(text)
        if known is None:
            _make_room(self._texts)
            known = self._texts[text] = json_line(text)
        return known

    def _body(self, message: DecodedMessage | None) -> str:
        if message is None:
            return "null"
        body = message.body
        if body is None:
            return "null" if message.values_07 is None else json_line(message.values_07)
        form = self._forms.get(body.shape)
        if form is None:
            form = self._forms[body.shape] = _form_of(message)
        return self._json.written(body, form)

    def _forwarded(self, inner: ForwardedExchange) -> str:
        header = inner.header
        head = self._head(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            inner.request,
        )
        request, response = self._body(inner.request), self._body(inner.response)
        problems = _problems(inner.request, inner.response)
        return f'{head},"request":{request},"response":{response}{problems}'


def _make_room(known: dict[Any, str]) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()


# -- what surrounds the messages ------------------------------------------------------------------

_CLIENT_AND_BROKER = "ends"
_WIRE_COLUMNS = (
    '"capture":%s',
    '"connection":%s',
    '"connectionNumber":%s',
    "%s",
    '"wire":%s',
    '"principal":%s',
    '"clientInformation":{"softwareName":%s',
    '"softwareVersion":%s}',
    '"requestStartNs":%s',
    '"requestEndNs":%s',
    '"responseStartNs":%s',
    '"responseEndNs":%s',
    '"latencyNs":%s',
    '"totalTimeNs":%s',
    '"requestPacket":%s',
    '"responsePacket":%s',
    '"requestSizeInBytes":%s',
    '"responseSizeInBytes":%s',
    '"status":%s',
    '"anomalies":%s',
)
_FACT_COLUMNS = (
    "capture",
    "connection",
    "connection_number",
    _CLIENT_AND_BROKER,
    "wire",
    "principal",
    "client_software_name",
    "client_software_version",
    "request_start_ns",
    "request_end_ns",
    "response_start_ns",
    "response_end_ns",
    "latency_ns",
    "total_time_ns",
    "request_packet",
    "response_packet",
    "request_bytes",
    "response_bytes",
    "status",
    "anomalies",
)
"""Members from the capture, and the columns of rows they come from."""


class _WireFields:
    """What the wire adds, by row."""

    def __init__(self) -> None:
        self._ends = WordTexts(_client_and_broker, b"null")
        columns = {column.name: column for column in COLUMNS}
        self._texts = {name: JsonTexts(columns[name]) for name in _FACT_COLUMNS if name in columns}
        *before, end = [text.encode("ascii") for text in ",".join(_WIRE_COLUMNS).split("%s")]
        self._members = LineWriter(before, end)

    def of(self, block: RowBlock) -> list[str]:
        """Give the members of each row of a block."""
        connections = block.columns["connection"]
        assert isinstance(connections, Words)
        values = {name: texts.of(block.columns[name]) for name, texts in self._texts.items()}
        values[_CLIENT_AND_BROKER] = self._ends.of(connections)
        return self._members.each(len(block), [values[name] for name in _FACT_COLUMNS])


def _client_and_broker(connection: str) -> str:
    """Return what the text of a connection consists of."""
    client, _, broker = connection.partition(">")
    return f'"client":{json_line(client)},"broker":{json_line(broker)}'


def _problems(request: DecodedMessage | None, response: DecodedMessage | None) -> str:
    """Return the members for bodies that were not decoded; mostly none."""
    made = ""
    for name, message in (("requestProblem", request), ("responseProblem", response)):
        if message is not None and message.problem is not None:
            made += f',"{name}":{json_line(_problem(message.problem))}'
    return made


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "kind": problem.kind.value,
        "fieldPath": problem.field_path,
        "frameOffset": problem.frame_offset,
        "rawSizeInBytes": problem.size_in_bytes,
        "reason": problem.reason,
    }


def _tags(tags: list[tuple[int, bytes]]) -> str:
    """Return the member of unknown tagged fields."""
    made = [{"tag": tag, "data": bytes_text(data)} for tag, data in tags]
    return f'"unknownTaggedFields":{json_line(made)}'


# -- messages -------------------------------------------------------------------------------------


def _form_of(message: DecodedMessage) -> Form:
    """Return the form of a message that was read."""
    definition, version, body = message.definition, message.version, message.body
    assert definition is not None
    assert version is not None
    assert body is not None
    return _struct_form(definition.struct, version, body.shape, message.secrets)


def _struct_form(struct: Struct, version: int, shape: Shape, secrets: RedactionPlan | None) -> Form:
    """Return the form of a struct whose tape has a shape."""
    made = Form(shape, secrets)
    places = {field.json_name: place for place, field in enumerate(struct.fields)}

    def form_of(name: str, inner: Shape) -> Form:
        field = struct.fields[places[name]]
        form = _field_form(field, version, inner, secrets)
        written = f"{name}SizeInBytes" if field.type == "records" else name
        form.become_field(name, written, places[name])
        return form

    made.fields = [form_of(*of) for of in zip(shape.places, shape.shapes, strict=True)]
    if shape.tags is not None:
        made.tags = {tag: form_of(*of) for tag, of in shape.tags.items()}
        for form in made.tags.values():
            form.is_default = partial(_is_default, struct.fields[form.place], version=version)
    return made


def _field_form(field: Field, version: int, shape: Shape, secrets: RedactionPlan | None) -> Form:
    """Return the form of a field; of an array or a nullable struct with its content."""
    if shape.inner is not None:
        made = Form(shape)
        made.inner = _field_form(field, version, shape.inner, secrets)
        return made
    if field.struct is None:
        return Form(shape)
    inside = None if secrets is None else secrets.nested.get(field.name)
    return _struct_form(field.struct, version, shape, inside)


def _is_default(field: Field, value: Any, version: int) -> bool:
    """Whether Kafka leaves a tagged field out."""
    if field.has_null_default or value is None:
        return field.has_null_default and value is None
    if field.is_array:
        return not value
    if field.struct is not None:
        return _has_defaults(field.struct, value, version)
    if field.type == "uuid":
        return bool(value == ZERO_UUID)
    default = b"" if field.type == "bytes" and field.default is None else field.default
    return bool(value == default)


def _has_defaults(struct: Struct, values: dict[str, Any], version: int) -> bool:
    if "_taggedFields" in values:
        return False
    return all(
        field.json_name not in values or _is_default(field, values[field.json_name], version)
        for field in struct.fields
        if field.is_present(version)
    )
