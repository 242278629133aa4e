from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.errors import DefinitionError, UsageError
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.codec.projection import Projection
from kanalyze.kafka.schema import user_definitions
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.user_definitions import read_definitions
from tests.support.definitions import built_in, field, folder, message, next_fetch, vendor_folder
from tests.support.messages import Writer

if TYPE_CHECKING:
    from pathlib import Path

REQUEST, RESPONSE = message("VendorRequest"), message("VendorResponse")


def refusal(path: Path) -> str:
    with pytest.raises(DefinitionError) as caught:
        Catalog(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_api_that_a_user_defines_is_in_the_catalog(tmp_path: Path) -> None:
    catalog = Catalog(vendor_folder(tmp_path))
    api = catalog.api(1000)
    assert api is not None
    assert catalog.named("VendorThing") is api
    assert catalog.apis[-1] is api
    assert (api.versions, api.first_release, api.listeners) == ((0, 1), "-", ())
    assert api.spoken_by("4.0").is_empty
    assert [catalog.request_header_version(1000, version) for version in (0, 1, 2)] == [1, 2, 2]
    assert [catalog.response_header_version(1000, version) for version in (0, 1, 2)] == [0, 1, 1]
    assert catalog.message(1000, "response").struct.field("Parts") is not None
    assert len(catalog.apis) == len(Catalog().apis) + 1


def test_a_newer_version_of_a_built_in_api_is_added(tmp_path: Path) -> None:
    catalog, original = Catalog(next_fetch(tmp_path)), Catalog()
    api, original_api = catalog.named("Fetch"), original.named("Fetch")
    assert api is not None
    assert original_api is not None
    assert api == original_api._replace(versions=api.versions)
    assert api.versions == (0, 19)
    request = catalog.message(1, "request")
    mood = request.struct.field("Mood")
    assert mood is not None
    assert str(mood.versions) == "19+"
    assert catalog.message(0, "request").name == original.message(0, "request").name


def test_decoders_of_user_definitions_are_for_their_catalog_alone(tmp_path: Path) -> None:
    own, projection = Catalog(next_fetch(tmp_path)), Projection.of("Mood")
    numbers = ("maxWaitMs", "minBytes", "maxBytes", "isolationLevel", "sessionId", "sessionEpoch")
    values = dict.fromkeys(numbers, 0) | {"topics": [], "forgottenTopicsData": [], "rackId": ""}
    body = Writer(own.message(1, "request"), 19).write(values | {"mood": "sad"})
    for _ in range(2):
        with pytest.raises(UsageError, match="no version 19"):
            Decoders(Catalog()).get(1, "request", 19, Projection.ALL)
        with pytest.raises(UsageError, match="no field 'Mood'"):
            Decoders(Catalog()).get(1, "request", 17, projection)
        decode = Decoders(own).get(1, "request", 19, projection)
        assert decode(body, 0, 0, None)[0] == ("sad",)


def test_the_built_in_files_over_themselves_change_nothing(tmp_path: Path) -> None:
    texts = {f"api{api.key}": built_in(f"{api.key:03d}_{api.name}.json") for api in Catalog().apis}
    assert Catalog(folder(tmp_path, **texts)).apis == Catalog().apis


def test_a_request_alone_may_be_redefined_with_another_name(tmp_path: Path) -> None:
    text = message("ListThingsRequest", key=74, flexibleVersions="0+", validVersions="0")
    catalog = Catalog(folder(tmp_path, One=text))
    assert catalog.named("ListThings") is catalog.api(74)
    assert catalog.named("ListConfigResources") is None
    assert catalog.message(74, "request").name == "ListThingsRequest"
    assert catalog.message(74, "response").name == "ListConfigResourcesResponse"


def test_data_inside_messages_may_be_defined_too(tmp_path: Path) -> None:
    subscription = built_in("data_ConsumerProtocolSubscription.json").replace('"0-3"', '"0-4"')
    own = folder(tmp_path, Sub=subscription, New=message("VendorData", key=None))
    catalog = Catalog(own)
    assert catalog.data("ConsumerProtocolSubscription").valid_versions == (0, 4)
    assert catalog.data("VendorData").valid_versions == (0, 1)
    assert catalog.data("ConsumerProtocolAssignment").valid_versions == (0, 3)


def test_headers_and_messages_of_other_kinds_are_ignored(tmp_path: Path) -> None:
    texts = {
        "Header": message("RequestHeader", key=None, type="header"),
        "Record": message("TopicRecord", key=None, type="metadata", apiKey=2),
        "Gone": message("OldRequest", key=4, validVersions="none", flexibleVersions="none"),
    }
    definitions = read_definitions(folder(tmp_path, **texts))
    assert definitions == ({}, {}, {})


def test_only_json_files_of_the_folder_itself_are_read(tmp_path: Path) -> None:
    vendor_folder(tmp_path)
    (tmp_path / "README.md").write_text("no definition")
    folder(tmp_path / "below", Bad="{")
    assert set(read_definitions(tmp_path).requests) == {1000}


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"A": REQUEST}, "A.json: VendorRequest: there is no response with apiKey 1000"),
        ({"A": RESPONSE}, "A.json: VendorResponse: there is no request with apiKey 1000"),
        ({"A": REQUEST, "B": REQUEST}, "B.json: VendorRequest: the request stands in "),
        (
            {"A": REQUEST + message("VendorResponse", validVersions="0-2")},
            "A.json: VendorRequest: requests have versions 0-1, responses 0-2",
        ),
        (
            {"A": message("Vendor")},
            "A.json: Vendor: the name of a response ends in Response",
        ),
        (
            {"A": message("MetadataRequest") + message("MetadataResponse")},
            "A.json: MetadataRequest: the APIs 3 and 1000 have one name",
        ),
        (
            {"A": message("HeartbeatRequest", field("GroupId", "int32"), key=12)},
            "A.json: HeartbeatRequest.GroupId: type int32 is not the built-in string",
        ),
        (
            {"A": message("HeartbeatRequest", key=12, validVersions="0-5")},
            "A.json: HeartbeatRequest: requests have versions 0-5, responses 0-4",
        ),
        ({"A": message("Big", key=None, validVersions="0-2000")}, "more than 1000 versions"),
        ({"A": "{"}, "A.json: not the JSON of a message"),
        ({"A": message("X", {"name": "F", "type": "int33", "versions": "0+"}, key=None)}, "X.F: "),
    ],
)
def test_a_broken_folder_is_refused_with_file_field_and_reason(
    texts: dict[str, str], reason: str, tmp_path: Path
) -> None:
    assert reason in refusal(folder(tmp_path, **texts))


BROKEN_FIELDS: list[tuple[list[dict[str, Any]], str]] = [
    (
        [
            field("One", versions="1+", tag=0, taggedVersions="1+"),
            field("Two", versions="1+", tag=0, taggedVersions="1+"),
        ],
        "VendorRequest.Two: tag 0 is taken by One",
    ),
    (
        [field("One", tag=0, taggedVersions="0+")],
        "VendorRequest.One: taggedVersions 0+ need flexible versions, which are 1+",
    ),
    ([field("One", default="many")], "VendorRequest.One: default 'many' is no value of type int32"),
    ([field("One", "int8", default="128")], "VendorRequest.One: default '128' is no value of "),
    (
        [field("One", versions="0-2")],
        "VendorRequest.One: versions 0-2 lie outside validVersions 0-1",
    ),
    ([field("One", "int128")], "VendorRequest.One: unknown type 'int128'"),
    (
        [field("One", "string", versions="1+", nullableVersions="0")],
        "VendorRequest.One: nullableVersions 0 lie outside versions 1+",
    ),
    ([field("One", "[]Nothing")], "VendorRequest.One: unknown type '[]Nothing'"),
    ([field("One"), field("One")], "VendorRequest.One: a field of that name stands in the struct"),
]


@pytest.mark.parametrize(("fields", "reason"), BROKEN_FIELDS)
def test_each_kind_of_broken_field_is_refused_with_file_field_and_reason(
    fields: list[dict[str, Any]], reason: str, tmp_path: Path
) -> None:
    own = folder(tmp_path, Vendor=message("VendorRequest", *fields) + RESPONSE)
    assert refusal(own).startswith(f"{own / 'Vendor.json'}: {reason}")


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing").endswith("not a folder of message definitions")
    assert refusal(tmp_path).endswith("there is no *.json with message definitions")
    (tmp_path / "sub.json").mkdir()
    assert "sub.json: " in refusal(tmp_path)


def test_a_file_that_is_not_utf8_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"// \xff\n")
    assert refusal(tmp_path) == f"{path}: not UTF-8 at byte 3"
    monkeypatch.setattr(user_definitions, "MAX_FILE_BYTES", 1 << 20)
    path.write_bytes(b" " * ((1 << 20) + 1))
    assert refusal(tmp_path) == f"{path}: more than 1 MiB"


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_definitions, "MAX_FILES", 1)
    assert refusal(vendor_folder(tmp_path)).endswith("more than 1 files")
