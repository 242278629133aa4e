from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.schema.layout import Layout
from kanalyze.kafka.schema.loader import load_messages
from tests.support.messages import Writer, every_message

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

TEXT = """
{ "type": "data", "name": "Sample", "validVersions": "0-3", "flexibleVersions": "2+", "fields": [
  { "name": "Id", "type": "int32", "versions": "0+" },
  { "name": "Name", "type": "string", "versions": "0+" },
  { "name": "Fixed", "type": "[]Fixed", "versions": "0+", "fields": [
    { "name": "A", "type": "uuid", "versions": "0+" },
    { "name": "B", "type": "int16", "versions": "1+" } ]},
  { "name": "Loose", "type": "Loose", "versions": "1+", "nullableVersions": "2+", "fields": [
    { "name": "C", "type": "bytes", "versions": "0+" } ]},
  { "name": "Late", "type": "int64", "versions": "0+", "tag": 0, "taggedVersions": "3+" }
]}
"""


@pytest.fixture
def message() -> MessageSpec:
    return load_messages(TEXT, "sample")[0]


def field(message: MessageSpec, name: str) -> Field:
    found = message.struct.field(name)
    assert found is not None
    return found


def names(fields: tuple[Field, ...]) -> list[str]:
    return [found.name for found in fields]


def test_fields_are_in_the_body_or_in_the_tag_section(message: MessageSpec) -> None:
    body = {version: names(Layout(message, version).untagged(message.struct)) for version in (0, 3)}
    assert body == {0: ["Id", "Name", "Fixed", "Late"], 3: ["Id", "Name", "Fixed", "Loose"]}
    assert names(Layout(message, 3).tagged(message.struct)) == ["Late"]
    assert names(Layout(message, 2).tagged(message.struct)) == []


@pytest.mark.parametrize(("version", "size"), [(0, 16), (1, 18), (2, None)])
def test_elements_have_a_fixed_size_until_there_are_tag_sections(
    message: MessageSpec, version: int, size: int | None
) -> None:
    assert Layout(message, version).fixed_element_size(field(message, "Fixed")) == size


@pytest.mark.parametrize(
    ("version", "least"), [(0, 4 + 2 + 4 + 8), (1, 4 + 2 + 4 + 4 + 8), (2, 4 + 1 + 1 + 1 + 8 + 1)]
)
def test_the_fewest_bytes_are_those_of_empty_values(
    message: MessageSpec, version: int, least: int
) -> None:
    assert Layout(message, version).min_struct_size(message.struct) == least


def test_no_message_has_an_array_whose_elements_take_no_bytes(catalog: Catalog) -> None:
    def arrays(layout: Layout, struct: Struct) -> list[Field]:
        found = []
        for inner in layout.untagged(struct):
            if inner.struct is not None:
                found += arrays(layout, inner.struct)
                found += [inner] if inner.is_array else []
        return found

    count = 0
    for message, version in every_message(catalog):
        layout = Layout(message, version)
        for array in arrays(layout, message.struct):
            assert array.struct is not None
            assert layout.min_struct_size(array.struct) > 0, (message.name, version, array.name)
            count += 1
    assert count > 500


def test_the_fewest_bytes_of_every_message_are_those_of_its_emptiest_values(
    catalog: Catalog,
) -> None:
    for message, version in every_message(catalog):
        written = Writer(message, version).write(emptiest(message.struct, version))
        assert Layout(message, version).min_struct_size(message.struct) == len(written)


def emptiest(struct: Struct, version: int) -> dict[str, object]:
    empty: dict[str, object] = {"string": "", "bytes": b"", "records": b"", "uuid": bytes(16)}
    values: dict[str, object] = {}
    for inner in struct.fields:
        if inner.is_present(version) and not inner.is_tagged(version):
            if inner.is_array:
                values[inner.json_name] = []
            elif inner.struct is None:
                values[inner.json_name] = empty.get(inner.type, 0)
            elif inner.is_nullable(version):
                values[inner.json_name] = None
            else:
                values[inner.json_name] = emptiest(inner.struct, version)
    return values
