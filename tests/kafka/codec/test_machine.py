"""The machine gives the same result for a body whatever pieces it is fed in."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common.compiled import is_compiled
from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.codec.machine import Status
from tests.support.batches import batch
from tests.support.messages import random_projection
from tests.support.uncompiled import compiled_modules
from tests.support.vectors import definition_of, read_vectors

if TYPE_CHECKING:
    from types import SimpleNamespace

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec

PIECES = (1, 2, 3, 7, 61, 64, 65, 1000)


@pytest.fixture(scope="module")
def bodies(catalog: Catalog) -> list[tuple[MessageSpec, int, bytes]]:
    """Give some bodies that Kafka wrote, of every message."""
    found: dict[tuple[str, int], tuple[MessageSpec, int, bytes]] = {}
    for vector in read_vectors():
        message = definition_of(vector, catalog)
        if len(vector.content) < 3000:
            found[message.name, vector.version] = (message, vector.version, vector.content)
    return sorted(found.values(), key=lambda one: (one[0].name, one[1]))[::6]


def outcome(core: SimpleNamespace, decoder: Any, body: bytes, sizes: list[int]) -> Any:
    """Feed a body in pieces; return status, remaining bytes, and the value if it is done."""
    machine = decoder.machine
    machine.begin(decoder.address, decoder.stack_cells, len(body))
    at, pieces_fed = 0, 0
    while machine.status == Status.RUNNING:
        size = sizes[pieces_fed % len(sizes)]
        piece = body[at : at + size]
        machine.feed(piece, 0, len(piece))
        at, pieces_fed = at + len(piece), pieces_fed + 1
        if not piece:
            break
    value = None
    if machine.status == Status.DONE:
        value = core.values.TapeReader(machine).value(decoder.shape)
    return machine.status, machine.remaining_bytes, repr(value)


def test_the_compiled_modules_run_here() -> None:
    assert is_compiled()
    assert "kanalyze.kafka.codec.values" in compiled_modules()


def test_a_body_in_pieces_gives_the_result_of_the_whole_body(
    core: SimpleNamespace, bodies: list[tuple[MessageSpec, int, bytes]]
) -> None:
    random = Random(7)
    for message, version, body in bodies:
        for projection in (Projection.ALL, random_projection(message, random)):
            decoder = core.compiler.compile_decoder(message, version, projection)
            whole = outcome(core, decoder, body, [len(body) or 1])
            assert whole[0] == Status.DONE, (message.name, version)
            for size in PIECES:
                assert outcome(core, decoder, body, [size]) == whole, (message.name, version, size)
            sizes = [random.randrange(1, 90) for _ in range(20)]
            assert outcome(core, decoder, body, sizes) == whole, (message.name, version, sizes)


def test_cut_and_changed_bodies_end_the_same_whole_and_in_pieces(
    core: SimpleNamespace, bodies: list[tuple[MessageSpec, int, bytes]]
) -> None:
    random = Random(8)
    for message, version, body in bodies[::2]:
        decoder = core.compiler.compile_decoder(message, version, Projection.ALL)
        for _ in range(6):
            changed = bytearray(body[: random.randrange(len(body) + 1)])
            for _ in range(random.randrange(3)):
                if changed:
                    changed[random.randrange(len(changed))] = random.randrange(256)
            whole = outcome(core, decoder, bytes(changed), [len(changed) or 1])
            assert whole[0] != Status.RUNNING
            for size in (1, 5, 64):
                result = outcome(core, decoder, bytes(changed), [size])
                assert result[0] == whole[0], (message.name, version, bytes(changed), size)
                if whole[0] == Status.DONE:
                    assert result == whole


def test_compiled_and_uncompiled_decoders_give_the_same_value(
    catalog: Catalog, core: SimpleNamespace, bodies: list[tuple[MessageSpec, int, bytes]]
) -> None:
    from kanalyze.kafka.codec.compiler import compile_decoder

    for message, version, body in bodies:
        decode = core.compiler.compile_decoder(message, version, Projection.ALL)
        compiled_decode = compile_decoder(message, version, Projection.ALL)
        assert repr(decode(body, 0)) == repr(compiled_decode(body, 0))


def fetch_body(catalog: Catalog, core: SimpleNamespace, *contents: bytes) -> tuple[Any, bytes]:
    """Write a Fetch v11 response with one partition per content; return decoder and body."""
    head = (0).to_bytes(4, "big") + bytes(6) + (1).to_bytes(4, "big") + b"\0\x01t"
    body = head + len(contents).to_bytes(4, "big")
    for number, content in enumerate(contents):
        partition = number.to_bytes(4, "big") + bytes(2 + 8 * 3) + bytes(4) + bytes(4)
        body += partition + len(content).to_bytes(4, "big") + content
    projection = Projection.of("Responses.Partitions.Records")
    message = catalog.message(1, "response")
    return core.compiler.compile_decoder(message, 11, projection), body


def test_record_data_is_stepped_over_without_being_fed(
    catalog: Catalog, core: SimpleNamespace
) -> None:
    contents = [batch(3, payload=5000), batch(4, payload=7000)]
    decoder, body = fetch_body(catalog, core, *contents)
    machine = decoder.machine
    machine.begin(decoder.address, decoder.stack_cells, len(body))
    fed_bytes = 0
    while machine.status == Status.RUNNING:
        at = machine.next_at(len(body))
        piece = body[at : at + 16]
        machine.feed(piece, 0, len(piece))
        fed_bytes += 16
    assert machine.remaining_bytes == 0
    assert fed_bytes < 400


def test_a_missing_batch_header_ends_its_records_but_not_the_message(
    catalog: Catalog, core: SimpleNamespace
) -> None:
    contents = [batch(3, payload=500) + batch(5, payload=500), batch(4, payload=700)]
    decoder, body = fetch_body(catalog, core, *contents)
    machine = decoder.machine
    hole = body.index(contents[0]) + len(batch(3, payload=500)) + 30
    machine.begin(decoder.address, decoder.stack_cells, len(body))
    machine.feed(body[:hole], 0, hole)
    assert machine.carried == 30
    assert machine.skip_missing_records()
    rest = body[machine.next_at(len(body)) :]
    machine.feed(rest, 0, len(rest))
    assert machine.status == Status.DONE
    ((topic,),) = core.values.TapeReader(machine).value(decoder.shape)
    (first,), (second,) = topic[0]
    assert (first.record_count, first.missing, first.batch_count) == (None, True, 1)
    assert (second.record_count, second.missing) == (4, False)


def test_only_a_batch_header_may_be_missing(catalog: Catalog, core: SimpleNamespace) -> None:
    decoder, body = fetch_body(catalog, core, batch(1))
    machine = decoder.machine
    machine.begin(decoder.address, decoder.stack_cells, len(body))
    machine.feed(body[:15], 0, 15)
    assert not machine.skip_missing_records()
    assert machine.status == Status.RUNNING
