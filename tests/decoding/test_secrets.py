"""No byte of a secret is in any output, whether messages are whole or broken."""

from __future__ import annotations

import base64
import struct

import pytest

from kanalyze.decoding.secrets import (
    HIDDEN,
    Redactor,
    holds_credentials,
    holds_password,
    is_secret_name,
)
from kanalyze.kafka.codec.interpreter import trace_message
from kanalyze.render.tree import TreeText
from tests.support.decoding import CATALOG, READER, exchange, frame, json_of, sized
from tests.support.messages import Writer, every_message
from tests.support.rows import row

SECRET = b"s3cr3t-t0ken-0f-Qxz9"
TEXT = SECRET.decode()


def config(name: str, value: str | None = TEXT, **more):
    return {"name": name, "value": value, **more}


def alter_configs(resource_type: int, name: str) -> dict:
    entry = config(name, configOperation=0)
    resource = {"resourceType": resource_type, "resourceName": "1", "configs": [entry]}
    return {"resources": [resource], "validateOnly": False}


def described(name: str, *, is_sensitive: bool, value: str | None = TEXT) -> dict:
    entry = {
        "name": name,
        "value": value,
        "readOnly": False,
        "configSource": 4,
        "isSensitive": is_sensitive,
        "synonyms": [{"name": name, "value": value, "source": 4}],
        "configType": 9,
        "documentation": None,
    }
    result = {
        "errorCode": 0,
        "errorMessage": None,
        "resourceType": 4,
        "resourceName": "1",
        "configs": [entry],
    }
    return {"throttleTimeMs": 0, "results": [result]}


def scram() -> dict:
    upsertion = {
        "name": "alice",
        "mechanism": 1,
        "iterations": 4096,
        "salt": SECRET,
        "saltedPassword": SECRET,
    }
    return {"deletions": [], "upsertions": [upsertion]}


def token() -> dict:
    return {
        "errorCode": 0,
        "principalType": "User",
        "principalName": "alice",
        "tokenRequesterPrincipalType": "User",
        "tokenRequesterPrincipalName": "alice",
        "issueTimestampMs": 1,
        "expiryTimestampMs": 2,
        "maxTimestampMs": 3,
        "tokenId": "id",
        "hmac": SECRET,
        "throttleTimeMs": 0,
    }


def described_tokens() -> dict:
    fields = ("errorCode", "throttleTimeMs", "issueTimestampMs", "expiryTimestampMs")
    one = {
        **{key: value for key, value in token().items() if key not in fields},
        "issueTimestamp": 1,
        "expiryTimestamp": 2,
        "maxTimestamp": 3,
        "renewers": [],
    }
    return {"errorCode": 0, "tokens": [one], "throttleTimeMs": 0}


def sasl_response() -> dict:
    return {
        "errorCode": 0,
        "errorMessage": None,
        "authBytes": SECRET,
        "sessionLifetimeMs": 0,
    }


INNER = frame(51, 0, "request", scram())[4:]
ENVELOPE = {"requestData": INNER, "requestPrincipal": b"alice", "clientHostAddress": b"1234"}
CREATE = {
    "topics": [
        {
            "name": "t",
            "numPartitions": 1,
            "replicationFactor": 1,
            "assignments": [],
            "configs": [config("plugin.client.secret")],
        }
    ],
    "timeoutMs": 1,
    "validateOnly": False,
}

CASES = [
    (36, 0, "request", {"authBytes": SECRET}),
    (36, 2, "request", {"authBytes": SECRET, "_taggedFields": [(50, SECRET)]}),
    (36, 2, "response", sasl_response()),
    (51, 0, "request", scram()),
    (38, 3, "response", token()),
    (39, 2, "request", {"hmac": SECRET, "renewPeriodMs": 1}),
    (40, 2, "request", {"hmac": SECRET, "expiryTimePeriodMs": 1}),
    (41, 3, "response", described_tokens()),
    (44, 1, "request", alter_configs(4, "listener.name.sasl.ssl.keystore.key")),
    (44, 0, "request", alter_configs(4, "sasl.jaas.config")),
    (44, 1, "request", alter_configs(99, "harmless")),
    (33, 2, "request", alter_configs(4, "ssl.truststore.password")),
    (32, 4, "response", described("harmless", is_sensitive=True)),
    (32, 4, "response", described("ssl.key.password", is_sensitive=False)),
    (19, 7, "request", CREATE),
    (58, 0, "request", ENVELOPE),
]
"""API, version, kind and values of messages that contain the secret."""


def everything_shown(data: bytes, api_key: int, version: int, kind: str) -> str:
    """Return all outputs of an exchange with this frame, as one text."""
    made = exchange(data) if kind == "request" else exchange(None, data)
    made.api_key, made.api_version = api_key, version
    found = READER.exchange(made)
    line = json_of(made, row(), found)
    lines = TreeText(READER, everything=True).lines(made, row(), found)
    return "\n".join([line, *lines, repr(found.request), repr(found.response)])


def fragments() -> list[str]:
    """Return parts of the secret in every form in which an output might write its bytes."""
    half = len(SECRET) // 2
    found = []
    for part in (SECRET, SECRET[:half], SECRET[half:], SECRET[:6], SECRET[-6:]):
        found += [part.decode(), part.hex()]
        # base64 of a run of bytes depends on where in it the run begins.
        found += [base64.b64encode(b"x" * skip + part).decode()[4:-4] for skip in range(3)]
    return [text for text in found if len(text) >= 4]


def assert_no_secret(shown: str) -> None:
    for text in fragments():
        assert text not in shown, text


@pytest.mark.parametrize(("api_key", "version", "kind", "values"), CASES)
def test_no_byte_of_a_secret_is_shown(api_key, version, kind, values):
    data = frame(api_key, version, kind, values)
    assert SECRET in data
    shown = everything_shown(data, api_key, version, kind)
    assert_no_secret(shown)
    assert HIDDEN in shown
    assert "not decoded" not in shown


@pytest.mark.parametrize(("api_key", "version", "kind", "values"), CASES)
def test_no_byte_of_a_secret_is_shown_of_a_message_cut_anywhere(api_key, version, kind, values):
    whole = frame(api_key, version, kind, values)
    for end in range(8, len(whole)):
        data = sized(whole[4:end])
        assert_no_secret(everything_shown(data, api_key, version, kind))


def test_the_fragments_are_found_if_nothing_is_hidden():
    # JoinGroup's metadata is no secret: it is shown, and its fragments are found.
    protocols = [{"name": TEXT, "metadata": SECRET}]
    values = {
        "groupId": "g",
        "sessionTimeoutMs": 1,
        "memberId": "",
        "protocolType": "consumer",
        "protocols": protocols,
    }
    shown = everything_shown(frame(11, 0, "request", values), 11, 0, "request")
    assert sum(text in shown for text in fragments()) >= 10


def test_null_and_harmless_values_are_shown():
    null = described("ssl.key.password", is_sensitive=True, value=None)
    found = READER.message(frame(32, 4, "response", null), 32, 4, "response")
    assert found.values is not None
    assert found.values["results"][0]["configs"][0]["value"] is None
    plain = described("retention.ms", is_sensitive=False)
    found = READER.message(frame(32, 4, "response", plain), 32, 4, "response")
    assert found.values == plain
    topic = alter_configs(2, "retention.ms")
    found = READER.message(frame(44, 1, "request", topic), 44, 1, "request")
    assert found.values == topic


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "listener.name.internal.ssl.keystore.key",
        "ssl.truststore.certificates",
        "ssl.keystore.certificate.chain",
        "SSL.Key.Password",
        "delegation.token.secret.key",
        "sasl.oauthbearer.client.credentials.client.secret",
        "vendor.apikey",
        "auth.token",
        "basic.auth.user.info",
        "confluent.schema.registry.basic.auth.user.info",
        "azure.storage.connection.string",
        "db_connection_string",
        "mongo.connectionString",
        "db.pass",
        "smtp-pass",
        "storage.sas",
        "confluent.license",
        "shared.access.signature",
    ],
)
def test_names_of_secrets_are_recognized(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "retention.ms",
        "delegation.token.expiry.time.ms",
        "ssl.keystore.location",
        "ssl.truststore.type",
        "cleanup.policy",
        "sasl.oauthbearer.token.endpoint.url",
        "compression.type",
        "confluent.license.topic",
        "log.cleaner.bypass",
        "compass",
        "sasl.mechanism",
        "",
    ],
)
def test_names_of_harmless_settings_are_not_secret(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "value",
    [
        f"https://user:{TEXT}@registry:8081",
        f"redis://:{TEXT}@host/0",
        f"http://one:80,http://user:{TEXT}@two",
        f"jdbc:postgresql://db/x?user=a&password={TEXT}",
        f"jdbc:sqlserver://db;user=a;Password={TEXT}",
        f"https://x.blob.core.windows.net/c?sv=1&sig={TEXT}",
        f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={TEXT}",
        f"amqp://user:with/slash{TEXT}@host",
    ],
)
def test_a_password_within_a_value_is_hidden_whatever_the_name(value):
    assert holds_password(value)
    entry = {"name": "vendor.endpoint", "value": value, "configOperation": 0}
    resource = {"resourceType": 4, "resourceName": "1", "configs": [entry]}
    data = frame(44, 1, "request", {"resources": [resource], "validateOnly": False})
    shown = everything_shown(data, 44, 1, "request")
    assert_no_secret(shown)
    assert HIDDEN in shown
    assert "vendor.endpoint" in shown


@pytest.mark.parametrize(
    "value",
    [
        "",
        "https://registry:8081/subjects",
        "PLAINTEXT://0.0.0.0:9092,SASL_SSL://broker:9093",
        "1@controller:9093,2@other:9093",
        "jdbc:postgresql://db/x?user=a&sslmode=require",
        "https://user@host/path",
        "compact,delete",
    ],
)
def test_a_value_without_a_password_is_shown(value):
    assert not holds_password(value)


def test_exactly_these_messages_hold_secrets():
    found = {message.name for message, _ in every_message(CATALOG) if Redactor(message).plan}
    assert found == {
        "AlterConfigsRequest",
        "AlterUserScramCredentialsRequest",
        "CreateDelegationTokenResponse",
        "CreateTopicsRequest",
        "CreateTopicsResponse",
        "DescribeConfigsResponse",
        "DescribeDelegationTokenResponse",
        "EnvelopeRequest",
        "EnvelopeResponse",
        "ExpireDelegationTokenRequest",
        "IncrementalAlterConfigsRequest",
        "RenewDelegationTokenRequest",
        "SaslAuthenticateRequest",
        "SaslAuthenticateResponse",
        "StreamsGroupDescribeResponse",
        "StreamsGroupHeartbeatRequest",
    }


def test_the_value_of_an_incomplete_configuration_is_hidden():
    # A later field, which is cut off, might say that the value is sensitive.
    message = CATALOG.message(32, "response")
    body = Writer(message, 4).write(described("harmless", is_sensitive=True))
    at = body.index(SECRET) + len(SECRET)
    trace = trace_message(message, 4, body[: at + 1])
    Redactor(message).redact_trace(trace.root)
    values = [str(node.value) for node in walk(trace.root)]
    assert HIDDEN in values
    assert TEXT not in values


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


def test_a_sasl_token_of_an_unknown_version_is_not_shown():
    head = struct.pack(">hhi", 36, 99, 1) + b"\0\3app\0"
    shown = everything_shown(sized(head + b"\x16" + SECRET + b"\0\0\0"), 36, 99, "request")
    assert "unknown_api_version" in shown
    assert_no_secret(shown)


def record(api_key: int, *texts: str, frame_version: int = 1) -> bytes:
    """Return frame version, API key, version 0, a resource type, and compact strings."""
    parts = [bytes([len(text) + 1]) + text.encode() for text in texts]
    return bytes([frame_version, api_key, 0, *([4] if texts else [])]) + b"".join(parts)


@pytest.mark.parametrize("api_key", [2, 3, 5])  # a topic, a partition, a change of a partition
def test_records_of_topics_are_shown(api_key: int) -> None:
    assert not holds_credentials(record(api_key))


@pytest.mark.parametrize("api_key", [10, 11, 127])  # a token, a SCRAM credential, unknown
def test_credentials_and_unknown_records_are_not_shown(api_key: int) -> None:
    assert holds_credentials(record(api_key))


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("retention.ms", "1000", False),
        ("ssl.keystore.password", "hunter2", True),
        ("sasl.jaas.config", "x", True),
        ("metric.endpoint", "http://me:hunter2@host/", True),
    ],
)
def test_a_configuration_is_shown_unless_it_is_a_secret(
    name: str, value: str, is_secret: bool
) -> None:
    assert holds_credentials(record(4, "orders", name, value)) is is_secret


def test_unreadable_values_are_not_shown() -> None:
    whole = record(4, "orders", "retention.ms", "1000")
    assert all(holds_credentials(whole[:size]) for size in range(len(whole)))
    assert holds_credentials(record(2, frame_version=9))
    assert holds_credentials(b"\xff" * 12)
