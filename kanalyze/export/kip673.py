r"""Exchanges as the broker's own request log writes them (KIP-673).

In: decoded exchanges. Out: plain values for JSON. This module must not know where they go, nor
read bytes.

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

- Secrets are ``"[hidden]"`` (see :mod:`kanalyze.analysis.decoding.secrets`). The broker logs salts,
  salted passwords and the HMACs of delegation tokens as they are; of configurations it hides those
  that it doesn't know by name, which cannot be told from the wire.
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

import base64
import json
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.analysis.decoding.values import api_key_name, endpoint_text, uuid_text
from kanalyze.protocol.language import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.analysis.decoding.bodies import (
        DecodedExchange,
        DecodedMessage,
        ForwardedExchange,
        Problem,
    )
    from kanalyze.analysis.row import Row
    from kanalyze.connection.exchange import Exchange
    from kanalyze.protocol.catalog import Catalog
    from kanalyze.protocol.language import Field, Message, Struct

    _Form: TypeAlias = Callable[[Any], Any]

__all__ = ["LogForms", "json_line"]

json_line: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
"""Return a value as one line of ASCII."""


class LogForms:
    """Gives decoded values the forms of Kafka's request log; keeps what it has worked out."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._forms: dict[tuple[int | None, str, int, tuple[str, ...]], _Form] = {}

    def exchange(self, exchange: Exchange, row: Row, decoded: DecodedExchange) -> dict[str, Any]:
        """Return the log's object for an exchange, with what the wire adds."""
        is_one_way = exchange.one_way and exchange.response is None
        made: dict[str, Any] = {
            "requestHeader": self.request_header(
                exchange.api_key,
                exchange.api_version,
                exchange.correlation_id,
                exchange.client_id,
                decoded.request,
            ),
            "request": self._body(decoded.request),
            "response": "" if is_one_way else self._body(decoded.response),
        }
        if exchange.wire != "kafka" and row.api_name is not None:
            made["requestHeader"]["requestApiKeyName"] = api_key_name(row.api_name)
        if decoded.forwarded is not None:
            made["forwarded"] = self._forwarded(decoded.forwarded)
        _add_problems(made, decoded.request, decoded.response)
        if decoded.response is not None and decoded.response.header_tags:
            made["responseHeader"] = {"unknownTaggedFields": _tags(decoded.response.header_tags)}
        made.update(_wire_facts(row))
        return made

    def message(self, definition: Message, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Return the object of one message, from values as a decoder of all fields gives them."""
        key = (definition.api_key, definition.name, version, definition.releases)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = _struct_form(definition.struct, version)
        made: dict[str, Any] = form(values)
        return made

    def request_header(
        self,
        api_key: int | None,
        api_version: int | None,
        correlation_id: int | None,
        client_id: str | None,
        request: DecodedMessage | None,
    ) -> dict[str, Any]:
        """Return the object of a request's header; null is what was not seen or has no name."""
        made: dict[str, Any] = {
            "requestApiKey": api_key,
            "requestApiVersion": api_version,
            "correlationId": correlation_id,
            "clientId": client_id,
            "requestApiKeyName": None,
        }
        if api_key is not None and api_version is not None:
            if self._catalog.request_header_version(api_key, api_version) == 0:
                del made["clientId"]
            api = self._catalog.api(api_key)
            made["requestApiKeyName"] = None if api is None else api_key_name(api.name)
        if request is not None and request.header_tags:
            made["unknownTaggedFields"] = _tags(request.header_tags)
        return made

    def _body(self, message: DecodedMessage | None) -> dict[str, Any] | None:
        if message is None or message.values is None:
            return None
        if message.definition is None or message.version is None:
            return message.values  # of Kafka 0.7: plain already
        return self.message(message.definition, message.version, message.values)

    def _forwarded(self, inner: ForwardedExchange) -> dict[str, Any]:
        header = inner.header
        made = {
            "requestHeader": self.request_header(
                header.api_key,
                header.api_version,
                header.correlation_id,
                header.client_id,
                inner.request,
            ),
            "request": self._body(inner.request),
            "response": self._body(inner.response),
        }
        _add_problems(made, inner.request, inner.response)
        return made


# -- what surrounds the messages ------------------------------------------------------------------


def _wire_facts(row: Row) -> dict[str, Any]:
    made: dict[str, Any] = {
        "capture": row.capture,
        "connection": row.connection,
        "connectionNumber": row.connection_number,
        "client": endpoint_text(row.client_ip, row.client_port),
        "broker": endpoint_text(row.broker_ip, row.broker_port),
        "wire": row.wire,
        "principal": row.principal,
        "clientInformation": {
            "softwareName": row.client_software_name,
            "softwareVersion": row.client_software_version,
        },
        "requestStartNs": row.request_start_ns,
        "requestEndNs": row.request_end_ns,
        "responseStartNs": row.response_start_ns,
        "responseEndNs": row.response_end_ns,
        "latencyNs": row.latency_ns,
        "totalTimeNs": row.total_time_ns,
        "requestPacket": row.request_packet,
        "responsePacket": row.response_packet,
        "requestSizeInBytes": row.request_bytes,
        "responseSizeInBytes": row.response_bytes,
        "status": row.status,
        "anomalies": row.anomalies,
    }
    return made


def _add_problems(
    made: dict[str, Any], request: DecodedMessage | None, response: DecodedMessage | None
) -> None:
    for name, message in (("requestProblem", request), ("responseProblem", response)):
        if message is not None and message.problem is not None:
            made[name] = _problem(message.problem)


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "kind": problem.kind.value,
        "fieldPath": problem.field_path,
        "frameOffset": problem.frame_offset,
        "rawSizeInBytes": problem.size_in_bytes,
        "reason": problem.reason,
    }


# -- messages -------------------------------------------------------------------------------------


def _struct_form(struct: Struct, version: int) -> _Form:
    """Return what gives the values of a struct their form."""
    steps = [
        (
            field.json_name,
            f"{field.json_name}SizeInBytes" if field.type == "records" else field.json_name,
            _field_form(field, version),
            field if field.is_tagged(version) else None,
        )
        for field in struct.fields
        if field.is_present(version)
    ]
    plain = not any(form or tagged for _, _, form, tagged in steps)

    def form_struct(values: dict[str, Any]) -> dict[str, Any]:
        if plain and "_taggedFields" not in values:
            return values
        made: dict[str, Any] = {}
        for name, written, form, tagged in steps:
            if tagged is not None and (
                name not in values or _is_default(tagged, values[name], version)
            ):
                continue
            value = values[name]
            if value is None:
                made[name] = None
            else:
                made[written] = value if form is None else form(value)
        if "_taggedFields" in values:
            made["unknownTaggedFields"] = _tags(values["_taggedFields"])
        return made

    return form_struct


def _field_form(field: Field, version: int) -> _Form | None:
    """Return what gives a value that is not null its form; None for nothing to do."""
    if field.struct is not None:
        form: _Form | None = _struct_form(field.struct, version)
    else:
        form = _PRIMITIVE_FORMS.get(field.element_type)
    if form is None or not field.is_array:
        return form
    each = form

    def form_array(values: Any) -> Any:
        # A text stands for an array that was hidden.
        return values if isinstance(values, str) else [each(value) for value in values]

    return form_array


def _bytes_text(value: bytes | str) -> str:
    # A text stands for bytes that were hidden.
    return value if isinstance(value, str) else base64.b64encode(value).decode("ascii")


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_PRIMITIVE_FORMS: dict[str, _Form] = {
    "uuid": uuid_text,
    "bytes": _bytes_text,
    "records": len,
    "float64": _float,
}


def _tags(tags: list[tuple[int, Any]]) -> list[dict[str, Any]]:
    return [{"tag": tag, "data": _bytes_text(data)} for tag, data in tags]


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
