from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.errors import UsageError
from kanalyze.kafka.codec.projection import Projection, select

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog


def test_a_projection_is_the_set_of_its_paths() -> None:
    one, other = Projection.of("B", "A", "A"), Projection.of("A", "B")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Projection.of("A")
    assert one != Projection.of("A", "B", raw_records=True)
    assert Projection.of() != Projection.ALL


def test_paths_become_a_tree(catalog: Catalog) -> None:
    projection = Projection.of("Acks", "TopicData.Name", "TopicData.PartitionData.Index")
    selection = select(catalog.message(0, "request"), projection)
    assert selection == {"Acks": {}, "TopicData": {"Name": {}, "PartitionData": {"Index": {}}}}


def test_the_path_of_a_struct_selects_all_its_fields(catalog: Catalog) -> None:
    selection = select(catalog.message(0, "request"), Projection.of("TopicData.PartitionData"))
    assert selection == {"TopicData": {"PartitionData": {"Index": {}, "Records": {}}}}


def test_a_struct_and_a_field_of_it_select_the_struct(catalog: Catalog) -> None:
    message = catalog.message(0, "request")
    whole = Projection.of("TopicData")
    assert select(message, whole) == select(message, Projection.of("TopicData.Name", "TopicData"))


def test_no_paths_select_nothing(catalog: Catalog) -> None:
    assert select(catalog.message(0, "request"), Projection.of()) == {}


def test_all_selects_every_field_of_every_version(catalog: Catalog) -> None:
    selection = select(catalog.message(0, "request"), Projection.ALL)
    assert set(selection) == {"TransactionalId", "Acks", "TimeoutMs", "TopicData"}
    assert set(selection["TopicData"]) == {"Name", "TopicId", "PartitionData"}


@pytest.mark.parametrize(
    ("path", "named_path"),
    [
        ("acks", "acks"),
        ("TopicData.Nope", "TopicData.Nope"),
        ("Acks.More", "Acks.More"),
        ("", ""),
        ("TopicData.", "TopicData."),
    ],
)
def test_an_unknown_path_is_refused(catalog: Catalog, path: str, named_path: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(catalog.message(0, "request"), Projection.of(path))
    assert f"ProduceRequest has no field {named_path!r}; there is: " in str(caught.value)
