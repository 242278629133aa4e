r"""Exchanges as the broker's own request log writes them (KIP-673).

In: decoded exchanges, with the block of their rows. Out: lines of JSON.

The forms are those of Kafka's ``JsonConverterGenerator``. They were compared with the request log
of a real broker, entry by entry:

- A message is an object with the fields of its version. Names are those of the newest definitions,
  in lowerCamelCase. A field that the version doesn't have is not written.
- Tagged fields are written only if they differ from their default, whether or not they are on the
  wire.
- null, integers and booleans are those of JSON. float64 is a number; values that JSON cannot
  represent are the texts ``NaN``, ``Infinity`` and ``-Infinity``.
- bytes are base64 (RFC 4648, padded). A UUID is URL-safe base64 without padding.
- Records are not written: instead of ``records`` there is ``recordsSizeInBytes``. Null records are
  ``"records": null``.
- Kafka 0.7 has no such log; its messages have the names of its wire format.
- The response to a Produce with acks 0, which is never sent, is the empty text.
- ``requestHeader`` has no ``clientId`` in version 0 of the header. ``requestApiKeyName`` is the
  name in Kafka's enumeration (``API_VERSIONS``).

Differences from a broker's log:

- Secrets are ``"[hidden]"`` (see :mod:`kanalyze.decoding.secrets`). The broker logs salts, salted
  passwords and the HMACs of delegation tokens unchanged. It hides configurations whose names it
  doesn't know; which these are cannot be seen on the wire.
- Records are sizes in every message; the broker logs those of ShareFetch responses as an empty
  text.
- A response that the broker made but could not send is null; the broker logs it.
- An Envelope is written with its contents hidden, and ``forwarded`` has the exchange inside it; the
  broker logs only the inner exchange.
- In text that is not UTF-8, the invalid bytes are ``\xNN``; Java writes U+FFFD.
- Names are those of the newest definitions; a broker of another release writes those of its release
  (``generationId`` of TxnOffsetCommit, ``generationIdOrMemberEpoch`` since 4.4).
- Unknown tagged fields are kept as ``unknownTaggedFields``; the broker drops them.

Additional keys, beside ``requestHeader``, ``request`` and ``response``:

- ``connection``, ``client``, ``broker`` and other columns of the row contract in lowerCamelCase.
  Times are Unix times in ns.
- ``clientInformation`` as in the broker's log, null if it is not in the capture.
- ``requestProblem`` and ``responseProblem``, only if bytes were not decoded: ``kind`` (as in
  ``anomalies``), ``fieldPath`` in the names of the JSON, ``frameOffset`` of the first byte that was
  not decoded, ``rawSizeInBytes`` from there to the end of the frame, ``reason``.
- ``responseHeader``, only if it has unknown tagged fields.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from kanalyze.common.caches import remember
from kanalyze.decoding.values import api_key_name
from kanalyze.export.tape_json import Form, TapeJson, bytes_text, json_line
from kanalyze.export.text import LineWriter
from kanalyze.export.text_files import JsonTexts, WordTexts
from kanalyze.kafka.schema.schema_ast import ZERO_UUID
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Words

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
    from kanalyze.kafka.framing.frame import RequestHeader
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Field, Struct
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.columns.block import RowBlock

_MAX_KNOWN = 4096
"""Number of texts that are cached: of headers, and of client ids. Both come from the wire."""


class LogLines:
    """Writes exchanges as lines of Kafka's request log; caches forms and texts."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        columns = {column.name: column for column in COLUMNS}
        self._ends = WordTexts(_client_and_broker, b"null")
        self._cells = {name: JsonTexts(columns[name]) for name in _MEMBERS if name in columns}
        *before, end = [text.encode("ascii") for text in ",".join(_MEMBERS.values()).split("%s")]
        self._members = LineWriter(before, end)
        self._json = TapeJson()
        self._forms: dict[Shape, Form] = {}
        self._heads: dict[tuple[int | None, int | None, str | None], str] = {}
        self._text = lru_cache(_MAX_KNOWN)(json_line)

    def lines(
        self, exchanges: Sequence[Exchange], block: RowBlock, decoded: Iterable[DecodedExchange]
    ) -> Iterator[str]:
        """Yield a line of ASCII for each exchange, without a line end.

        Args:
            exchanges: the exchanges to write.
            block: their rows.
            decoded: their decoded messages; each is requested after the line before was yielded.
        """
        names = block.columns["api_name"]
        assert isinstance(names, Words)
        for exchange, code, members, bodies in zip(
            exchanges, names.codes, self._members_of(block), decoded, strict=True
        ):
            # Kafka 0.7 has API keys of its own.
            name = names.words[code] if exchange.wire != "kafka" and code >= 0 else None
            yield f"{{{self._exchange(exchange, name, bodies)},{members}}}"

    def _members_of(self, block: RowBlock) -> list[str]:
        """Return the members that come from the capture, of each row, as JSON."""
        connections = block.columns["connection"]
        assert isinstance(connections, Words)
        cells = {name: texts.of(block.columns[name]) for name, texts in self._cells.items()}
        cells[_CLIENT_AND_BROKER] = self._ends.of(connections)
        return self._members.each(len(block), [cells[name] for name in _MEMBERS])

    def _exchange(self, exchange: Exchange, name: str | None, decoded: DecodedExchange) -> str:
        """Return the members that the broker's log has too."""
        request, response = decoded.request, decoded.response
        is_one_way = exchange.one_way and exchange.response is None
        answer = '""' if is_one_way else self._body(response)
        members = f'{self._head(exchange, request, name)},"request":{self._body(request)}'
        members += f',"response":{answer}'
        if decoded.forwarded is not None:
            members += f',"forwarded":{{{self._forwarded(decoded.forwarded)}}}'
        members += _problems(request, response)
        if response is not None and response.header_tags:
            members += f',"responseHeader":{{{_tags(response.header_tags)}}}'
        return members

    def _head(
        self,
        header: Exchange | RequestHeader,
        request: DecodedMessage | None,
        name: str | None = None,
    ) -> str:
        """Return the object of a request's header, with null for unknown values.

        ``name`` is the name of an API whose key the catalog does not have.
        """
        key = header.api_key, header.api_version, name
        head = self._heads.get(key)
        if head is None:
            head = remember(self._heads, key, self._new_head(*key), _MAX_KNOWN)
        number, client = header.correlation_id, header.client_id
        tags = ""
        if request is not None and request.header_tags:
            tags = f",{_tags(request.header_tags)}"
        return head % (
            "null" if number is None else number,
            "null" if client is None else self._text(client),
            tags,
        )

    def _new_head(self, api_key: int | None, api_version: int | None, name: str | None) -> str:
        """Return a ``%`` template of a header for correlation id, client id and tags."""
        client = ',"clientId":%s'
        if api_key is not None and api_version is not None:
            if self._catalog.request_header_version(api_key, api_version) == 0:
                client = "%.0s"  # formats any value as an empty text
            api = self._catalog.api(api_key)
            name = name or (None if api is None else api.name)
        name_text = json_line(None if name is None else api_key_name(name)).replace("%", "%%")
        return (
            f'"requestHeader":{{"requestApiKey":{json_line(api_key)},'
            f'"requestApiVersion":{json_line(api_version)},"correlationId":%s{client},'
            f'"requestApiKeyName":{name_text}%s}}'
        )

    def _body(self, message: DecodedMessage | None) -> str:
        if message is None:
            return "null"
        body = message.body
        if body is None:
            return (
                "null" if message.undefined_values is None else json_line(message.undefined_values)
            )
        form = self._forms.get(body.shape)
        if form is None:
            form = self._forms[body.shape] = _form_of(message)
        return self._json.written(body, form)

    def _forwarded(self, inner: ForwardedExchange) -> str:
        head = self._head(inner.header, inner.request)
        request, response = self._body(inner.request), self._body(inner.response)
        problems = _problems(inner.request, inner.response)
        return f'{head},"request":{request},"response":{response}{problems}'


# -- members besides the messages -----------------------------------------------------------------

_CLIENT_AND_BROKER = "ends"
_MEMBERS = {
    "capture": '"capture":%s',
    "connection": '"connection":%s',
    "connection_number": '"connectionNumber":%s',
    _CLIENT_AND_BROKER: "%s",
    "wire": '"wire":%s',
    "principal": '"principal":%s',
    "client_software_name": '"clientInformation":{"softwareName":%s',
    "client_software_version": '"softwareVersion":%s}',
    "request_start_ns": '"requestStartNs":%s',
    "request_end_ns": '"requestEndNs":%s',
    "response_start_ns": '"responseStartNs":%s',
    "response_end_ns": '"responseEndNs":%s',
    "latency_ns": '"latencyNs":%s',
    "total_time_ns": '"totalTimeNs":%s',
    "request_packet": '"requestPacket":%s',
    "response_packet": '"responsePacket":%s',
    "request_bytes": '"requestSizeInBytes":%s',
    "response_bytes": '"responseSizeInBytes":%s',
    "status": '"status":%s',
    "anomalies": '"anomalies":%s',
}
"""Members from the capture, by the columns of rows that they come from."""


def _client_and_broker(connection: str) -> str:
    """Return the client and the broker in the text of a connection."""
    client, _, broker = connection.partition(">")
    return f'"client":{json_line(client)},"broker":{json_line(broker)}'


def _problems(request: DecodedMessage | None, response: DecodedMessage | None) -> str:
    """Return the members for bodies that were not decoded; usually empty."""
    members = ""
    for name, message in (("requestProblem", request), ("responseProblem", response)):
        if message is not None and message.problem is not None:
            members += f',"{name}":{json_line(_problem(message.problem))}'
    return members


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "kind": problem.kind.value,
        "fieldPath": problem.field_path,
        "frameOffset": problem.frame_offset,
        "rawSizeInBytes": problem.size_in_bytes,
        "reason": problem.reason,
    }


def _tags(tags: list[tuple[int, bytes]]) -> str:
    """Return the member for unknown tagged fields."""
    fields = [{"tag": tag, "data": bytes_text(data)} for tag, data in tags]
    return f'"unknownTaggedFields":{json_line(fields)}'


# -- messages -------------------------------------------------------------------------------------


def _form_of(message: DecodedMessage) -> Form:
    """Return the form of a message that was decoded."""
    definition, version, body = message.definition, message.version, message.body
    assert definition is not None
    assert version is not None
    assert body is not None
    return _struct_form(definition.struct, version, body.shape, message.secrets)


def _struct_form(struct: Struct, version: int, shape: Shape, secrets: RedactionPlan | None) -> Form:
    """Return the form of a struct with the given shape on the tape."""
    struct_form = Form(shape, secrets)
    indices = {field.json_name: index for index, field in enumerate(struct.fields)}

    def form_of(name: str, inner: Shape) -> Form:
        field = struct.fields[indices[name]]
        form = _field_form(field, version, inner, secrets)
        written = f"{name}SizeInBytes" if field.type == "records" else name
        form.become_field(name, written, indices[name])
        return form

    fields = zip(shape.keys, shape.shapes, strict=True)
    struct_form.fields = [form_of(key, field_shape) for key, field_shape in fields]
    if shape.tags is not None:
        struct_form.tags = {
            tag: form_of(key, field_shape) for tag, (key, field_shape) in shape.tags.items()
        }
        for form in struct_form.tags.values():
            form.is_default = partial(_is_default, struct.fields[form.place], version=version)
    return struct_form


def _field_form(field: Field, version: int, shape: Shape, secrets: RedactionPlan | None) -> Form:
    """Return the form of a field, including the form of its elements or its struct."""
    if shape.inner is not None:
        form = Form(shape)
        form.inner = _field_form(field, version, shape.inner, secrets)
        return form
    if field.struct is None:
        return Form(shape)
    inside = None if secrets is None else secrets.nested.get(field.name)
    return _struct_form(field.struct, version, shape, inside)


def _is_default(field: Field, value: Any, version: int) -> bool:
    """Return true if Kafka omits a tagged field with this value."""
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
