"""The supported protocol: APIs, their fields in every version, error codes.

In: the catalog. Out: lines of text, or plain values for JSON. It escapes the texts of definitions
that a user added.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kanalyze.common.texts import escape
from kanalyze.decoding.values import api_key_name
from kanalyze.kafka.schema.api_table import RELEASES
from kanalyze.kafka.schema.error_codes import is_retriable
from kanalyze.kafka.schema.error_table import ERRORS
from kanalyze.kafka.schema.schema_ast import MAX_VERSION
from kanalyze.render.layout import TableColumn
from kanalyze.render.lines import fitted_table
from kanalyze.render.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.kafka.schema.catalog import Api, Catalog, Kind
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

_KINDS: tuple[Kind, Kind] = ("request", "response")
_OLDEST_LOOKED_AT = "2.2"
_OLDEST, _NEWEST = RELEASES[0], RELEASES[-2]
"""Releases that have a column in the table. The last one in RELEASES is the development branch."""


# -- all APIs -------------------------------------------------------------------------------------


def apis_lines(catalog: Catalog, width: int | None = None) -> Iterator[str]:
    """Yield the table of all APIs, without some columns if they do not fit into ``width``."""
    columns = (
        TableColumn("key", right=True),
        TableColumn("API", least=20),
        TableColumn("versions"),
        TableColumn("flexible", rank=1),
        TableColumn("request header", rank=5),
        TableColumn("response header", rank=6),
        TableColumn("since", rank=2),
        TableColumn(_OLDEST),
        TableColumn(_NEWEST),
        TableColumn("unstable", rank=4),
        TableColumn("listeners", rank=3),
    )
    rows = [
        (
            str(api.key),
            api.name,
            str(api.versions),
            _flexible(api),
            _header_text(catalog, api, "request"),
            _header_text(catalog, api, "response"),
            _since(api),
            _spoken(api, _OLDEST),
            _spoken(api, _NEWEST),
            " ".join(api.unstable) or MISSING,
            " ".join(api.listeners),
        )
        for api in catalog.apis
    ]
    yield from _table(columns, rows, width)
    yield ""
    meaning = (
        "versions: all that any release speaks; header: its version, N+: from API version N on; "
        f"{_OLDEST}, {_NEWEST}: the versions that these releases speak"
    )
    yield from [meaning] if width is None else textwrap.wrap(meaning, width)


def summary_facts(api: Api) -> dict[str, Any]:
    """Return the facts of an API's row in the table as plain values; None for never or none."""
    return {
        "key": api.key,
        "name": api.name,
        "enumName": api_key_name(api.name),
        "versions": [api.versions.lowest, api.versions.highest],
        "requestFlexibleFrom": _or_none(api.request_flexible_from),
        "responseFlexibleFrom": _or_none(api.response_flexible_from),
        "firstRelease": api.first_release,
        "releases": {release: _range_or_none(api, release) for release in RELEASES},
        "unstable": list(api.unstable),
        "listeners": list(api.listeners),
    }


# -- one API --------------------------------------------------------------------------------------


def api_lines(catalog: Catalog, api: Api) -> Iterator[str]:
    """Yield the facts of an API, then the fields of its request and response."""
    facts = (
        ("versions", str(api.versions)),
        ("flexible", _flexible(api)),
        ("request header", _header_text(catalog, api, "request")),
        ("response header", _header_text(catalog, api, "response")),
        ("since", _since(api)),
        ("spoken by", _releases_text(api)),
        ("unstable", ", ".join(api.unstable) or MISSING),
        ("listeners", ", ".join(api.listeners)),
    )
    yield f"{api.name}, key {api.key}, {api_key_name(api.name)}"
    for name, text in facts:
        yield f"  {name:<16}{escape(text)}"
    for kind in _KINDS:
        yield ""
        yield from _message_lines(_message_of(catalog, api, kind))


def api_facts(catalog: Catalog, api: Api) -> dict[str, Any]:
    """Return the facts of an API as plain values."""
    facts = summary_facts(api)
    for kind in _KINDS:
        message = _message_of(catalog, api, kind)
        facts[f"{kind}Headers"] = {
            str(version): _header_version(catalog, api, kind, version)
            for version in api.versions.each()
        }
        facts[kind] = {
            "name": message.name,
            "fields": _fields_facts(message.struct, message),
        }
    return facts


def _message_of(catalog: Catalog, api: Api, kind: Kind) -> MessageSpec:
    """Return a message with the versions of ``api``, which may be one of its versions alone."""
    message = catalog.message(api.key, kind)
    return message._replace(valid_versions=message.valid_versions.intersect(api.versions))


def _message_lines(message: MessageSpec) -> Iterator[str]:
    columns = (
        TableColumn(message.name),
        TableColumn("type"),
        TableColumn("versions"),
        TableColumn("notes"),
    )
    rows = list(_field_rows(message.struct, message, 0))
    if not rows:
        yield f"{message.name}: no fields"
        return
    yield from _table(columns, rows)


def _field_rows(struct: Struct, message: MessageSpec, depth: int) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        versions = field.versions.intersect(message.valid_versions)
        if versions.is_empty:
            continue  # a user's definition removed it
        yield (
            f"{'  ' * (depth + 1)}{field.json_name}",
            field.type,
            str(versions),
            ", ".join(_notes(field, message)),
        )
        if field.struct is not None:
            yield from _field_rows(field.struct, message, depth + 1)


def _notes(field: Field, message: MessageSpec) -> Iterator[str]:
    valid = field.versions.intersect(message.valid_versions)
    nullable = field.nullable_versions.intersect(valid)
    tagged = field.tagged_versions.intersect(valid)
    if not nullable.is_empty:
        yield "nullable" if nullable == valid else f"nullable {nullable}"
    if not tagged.is_empty:
        yield f"tag {field.tag}" if tagged == valid else f"tag {field.tag} in {tagged}"
    if field.map_key:
        yield "key"
    default = _default(field)
    if default is not None:
        yield f"default {default}"


def _default(field: Field) -> str | None:
    """Return the default of a field; None if it is zero, empty or false."""
    if field.has_null_default:
        return "null"
    if field.is_array or field.struct is not None or not field.default:
        return None
    if isinstance(field.default, bytes):
        return None if not any(field.default) else field.default.hex()
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def _fields_facts(struct: Struct, message: MessageSpec) -> list[dict[str, Any]]:
    """Return the facts of the fields that a version of the message has."""
    return [
        _field_facts(field, message)
        for field in struct.fields
        if not field.versions.intersect(message.valid_versions).is_empty
    ]


def _field_facts(field: Field, message: MessageSpec) -> dict[str, Any]:
    valid = field.versions.intersect(message.valid_versions)
    facts: dict[str, Any] = {
        "name": field.json_name,
        "type": field.type,
        "versions": str(valid),
        "nullableVersions": str(field.nullable_versions.intersect(valid)),
        "taggedVersions": str(field.tagged_versions.intersect(valid)),
        "tag": field.tag,
        "default": _default(field),
        "mapKey": field.map_key,
        "entityType": field.entity_type,
    }
    if field.struct is not None:
        facts["fields"] = _fields_facts(field.struct, message)
    return facts


# -- error codes ----------------------------------------------------------------------------------


def errors_lines() -> Iterator[str]:
    """Yield the table of error codes."""
    columns = (TableColumn("code", right=True), TableColumn("error"), TableColumn("retriable"))
    rows = [
        (str(fact["code"]), fact["name"], "yes" if fact["retriable"] else "no")
        for fact in error_facts()
    ]
    yield from _table(columns, rows)


def error_facts() -> list[dict[str, Any]]:
    """Return the error codes as plain values, in ascending order."""
    return [
        {"code": code, "name": ERRORS[code][0], "retriable": is_retriable(code)}
        for code in sorted(ERRORS)
    ]


# -- words ----------------------------------------------------------------------------------------


def _table(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int | None = None
) -> Iterator[str]:
    columns = [column._replace(title=escape(column.title)) for column in columns]
    cells = [[(escape(text), "") for text in row] for row in rows]
    yield from (line.plain for line in fitted_table(columns, cells, width))


def _flexible(api: Api) -> str:
    request, response = api.request_flexible_from, api.response_flexible_from
    if request == response:
        return _from_text(request)
    return f"request {_from_text(request)}, response {_from_text(response)}"


def _from_text(version: int) -> str:
    return "never" if version > MAX_VERSION else f"{version}+"


def _or_none(version: int) -> int | None:
    return None if version > MAX_VERSION else version


def _since(api: Api) -> str:
    first = api.first_release
    return f"{first} or before" if first == _OLDEST_LOOKED_AT else first


def _spoken(api: Api, release: str) -> str:
    versions = api.spoken_by(release)
    return MISSING if versions.is_empty else str(versions)


def _range_or_none(api: Api, release: str) -> list[int] | None:
    versions = api.spoken_by(release)
    return None if versions.is_empty else [versions.lowest, versions.highest]


def _releases_text(api: Api) -> str:
    """Return the versions of each release: ``0-11 in 3.9; 3-12 in 4.0; 3-13 in 4.1 to trunk``."""
    parts = []
    for text, group in groupby(RELEASES, key=lambda release: _spoken(api, release)):
        releases = list(group)
        span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
        parts.append(f"{'none' if text == MISSING else text} in {span}")
    return "; ".join(parts)


def _header_version(catalog: Catalog, api: Api, kind: Kind, version: int) -> int:
    if kind == "request":
        return catalog.request_header_version(api.key, version)
    return catalog.response_header_version(api.key, version)


def _header_text(catalog: Catalog, api: Api, kind: Kind) -> str:
    """Return the header version of each API version: ``1, 2 in 9+``."""
    header_versions = [(_header_version(catalog, api, kind, v), v) for v in api.versions.each()]
    parts = []
    for header, group in groupby(header_versions, key=lambda pair: pair[0]):
        first = next(group)[1]
        parts.append(str(header) if first == api.versions.lowest else f"{header} in {first}+")
    return ", ".join(parts)
