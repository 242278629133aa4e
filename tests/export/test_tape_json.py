"""Bodies become JSON, by compiled and by uncompiled modules."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.decoding.bodies import EVERYTHING, DecodedExchange, DecodedMessage
from kanalyze.decoding.secrets import Redactor
from kanalyze.export import kip673
from kanalyze.kafka.codec import compiler
from kanalyze.tables.columns.block import RowBlock
from tests.support.decoding import CATALOG, exchange, frame
from tests.support.messages import Writer
from tests.support.rows import row
from tests.support.uncompiled import uncompiled
from tests.support.vectors import definition_of, read_vectors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.schema_ast import MessageSpec

_BESIDES = ("kanalyze.kafka.codec.compiler",)
_WRITERS = ("kanalyze.export.text_files", "kanalyze.export.kip673")
_LARGEST = 2**63 - 1


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """Return decoder and writer, compiled and then uncompiled."""
    if request.param == "compiled":
        yield SimpleNamespace(compiler=compiler, log=kip673.LogLines(CATALOG))
        return
    with uncompiled(*_BESIDES, *_WRITERS) as modules:
        pass
    log = modules["kanalyze.export.kip673"].LogLines(CATALOG)
    yield SimpleNamespace(compiler=modules["kanalyze.kafka.codec.compiler"], log=log)


def written(core: SimpleNamespace, definition: MessageSpec, version: int, content: bytes) -> Any:
    """Return the JSON of a response with this body."""
    decode = core.compiler.compile_decoder(definition, version, EVERYTHING)
    assert decode.read(content, 0) == len(content)
    secrets = Redactor(definition).plan
    message = DecodedMessage(definition, version, decode.take(None), [], None, secrets)
    made = exchange(None, frame(12, 0, "response", {"errorCode": 0}))
    (line,) = core.log.lines(
        [made], RowBlock.of_rows([row()]), [DecodedExchange(None, message, None)]
    )
    assert line.isascii()
    return json.loads(line)["response"]


def values_written(core: SimpleNamespace, api_key: int, version: int, values: Any) -> Any:
    definition = CATALOG.message(api_key, "request")
    return written(core, definition, version, Writer(definition, version).write(values))


@pytest.mark.parametrize("step", [30, pytest.param(1, marks=pytest.mark.long)])
def test_messages_of_kafkas_serializer_are_the_same_compiled_and_uncompiled(core, step):
    compiled_core = SimpleNamespace(compiler=compiler, log=kip673.LogLines(CATALOG))
    for vector in read_vectors()[::step]:
        message = definition_of(vector, CATALOG), vector.version, vector.content
        assert written(core, *message) == written(compiled_core, *message)


@pytest.mark.parametrize(
    "number", [0, 1, -1, 9, 10, 99, 100, -(10**18), -(10**18) - 1, _LARGEST, -_LARGEST - 1]
)
def test_a_number_of_any_size_is_written(core, number):
    partition = {"partitionIndex": 0, "timestamp": number}
    topics = [{"name": "t", "partitions": [partition]}]
    made = values_written(core, 2, 1, {"replicaId": -1, "topics": topics})
    assert made["topics"] == topics


@pytest.mark.parametrize(
    "text", ["", "plain", 'a "quote"', "back\\slash", "\x7f\n\t\0", "é 名 \U0001f600", "x" * 10_000]
)
def test_a_text_with_any_characters_is_written(core, text):
    values = {"groupId": text, "generationId": 1, "memberId": text}
    assert values_written(core, 12, 0, values) == values


def test_tagged_fields_are_in_the_order_of_the_definition(core):
    definition = CATALOG.message(18, "response")
    values = {
        "errorCode": 0,
        "apiKeys": [],
        "throttleTimeMs": 5,
        "finalizedFeaturesEpoch": 7,
        "zkMigrationReady": True,
        "_taggedFields": [(9, b"hi")],
    }
    made = written(core, definition, 3, Writer(definition, 3).write(values))
    places = {field.json_name: place for place, field in enumerate(definition.struct.fields)}
    names = [name for name in made if name != "unknownTaggedFields"]
    assert names == sorted(values.keys() - {"_taggedFields"}, key=places.__getitem__)
    assert made["unknownTaggedFields"] == [{"tag": 9, "data": "aGk="}]


def test_a_secret_is_hidden_and_the_fields_beside_it_are_not(core):
    values = {"authBytes": b"secret", "_taggedFields": [(9, b"secret")]}
    made = values_written(core, 36, 2, values)
    hidden = "[hidden]"
    assert made == {"authBytes": hidden, "unknownTaggedFields": [{"tag": 9, "data": hidden}]}
    config = {"name": "sasl.jaas.config", "value": "secret", "configOperation": 0}
    harmless = {"name": "retention.ms", "value": "1", "configOperation": 0}
    resource = {"resourceType": 2, "resourceName": "t", "configs": [config, harmless]}
    made = values_written(core, 44, 1, {"resources": [resource], "validateOnly": False})
    assert made["resources"][0]["configs"] == [config | {"value": hidden}, harmless]
    unknown = values_written(
        core, 44, 1, {"resources": [resource | {"resourceType": 99}], "validateOnly": False}
    )
    assert [config_item["value"] for config_item in unknown["resources"][0]["configs"]] == [
        hidden,
        hidden,
    ]
