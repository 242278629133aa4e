"""The table of API x version x {request, response}: whether our values equal Kafka's own JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.kafka.codec.compiler import Projection, compile_decoder
from kanalyze.kafka.codec.interpreter import read_message
from kanalyze.kafka.wire import WireError
from tests.support.vectors import definition_of, kafka_json, records_in, unknown_tags_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.schema.catalog import Api, Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec
    from tests.support.vectors import Vector

Cell: TypeAlias = tuple[str, int]
"""Name of a message in our definitions, and version."""
Outcomes: TypeAlias = dict[Cell, list[str]]
"""The differences in each version that was compared; empty if there are none."""

VECTORS = "vectors"
"""The property of a test's report with its outcomes, for the summary of the run: another process
may have run the test."""


def compare(vectors: Iterable[Vector], catalog: Catalog) -> Outcomes:
    """Decode vectors, and compare them with Kafka's JSON."""
    outcomes: Outcomes = {}
    decoders: dict[Cell, BodyDecoder] = {}
    for vector in vectors:
        message = definition_of(vector, catalog)
        cell = (message.name, vector.version)
        if cell not in decoders:
            decoders[cell] = compile_decoder(message, vector.version, Projection.ALL)
        differences = outcomes.setdefault(cell, [])
        found = _difference(vector, message, decoders[cell])
        if found is not None:
            differences.append(f"{vector.name} {vector.version} of {vector.release}: {found}")
    return outcomes


def _difference(vector: Vector, message: MessageSpec, decode: BodyDecoder) -> str | None:
    """Return what differs, or None: value, extent, unknown tags, records, reference reader."""
    try:
        values, end = decode(vector.content, 0)
    except WireError as error:
        return f"not decoded: {error}"
    if end != len(vector.content):
        return f"{len(vector.content) - end} bytes left over"
    ours = canonical(kafka_json(message.struct, values))
    if ours != canonical(vector.json):
        return f"{ours} is not {canonical(vector.json)}"
    if tuple(sorted(unknown_tags_in(message.struct, values))) != vector.unknown_tags:
        return "other unknown tags"
    if tuple(records_in(message.struct, values)) != vector.records:
        return "other records"
    if read_message(message, vector.version, vector.content) != (values, end):
        return "the reference reader gives another result"
    return None


def canonical(value: Any) -> str:
    """Return JSON text that distinguishes 1, 1.0 and true, and ignores the order of names."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def cells_of(catalog: Catalog) -> set[Cell]:
    """Return every version of every request and response."""
    return {
        (api.name + suffix, version)
        for api in catalog.apis
        for suffix in ("Request", "Response")
        for version in api.versions.each()
    }


def summary(outcomes: Outcomes, catalog: Catalog) -> str:
    """Return one line: how many versions of requests and responses are equal."""
    cells = cells_of(catalog)
    equal = sum(outcomes.get(cell) == [] for cell in cells)
    apis = len(catalog.apis)
    return (
        f"{equal} of {len(cells)} API x version x {{request, response}} of {apis} APIs "
        "decode equal to Kafka's own JSON"
    )


def table(outcomes: Outcomes, catalog: Catalog) -> list[str]:
    """Return a line for each API with a sign for each version."""
    lines = [
        "A sign for each version: = equal to Kafka's own JSON, X not equal, . no vector",
        _line("key", "API", "versions", "requests", "responses"),
    ]
    for api in catalog.apis:
        requests, responses = (_signs(api, kind, outcomes) for kind in ("Request", "Response"))
        lines.append(_line(str(api.key), api.name, str(api.versions), requests, responses))
    return [*lines, summary(outcomes, catalog)]


def _signs(api: Api, suffix: str, outcomes: Outcomes) -> str:
    found = (outcomes.get((api.name + suffix, version)) for version in api.versions.each())
    return "".join("." if cell is None else "X" if cell else "=" for cell in found)


def _line(key: str, name: str, versions: str, requests: str, responses: str) -> str:
    return f"{key:>3} {name:<37} {versions:<8} {requests:<19} {responses:<19}".rstrip()
