"""Hides the secrets in messages.

In: definitions, and values or traces decoded with them. Out: the same, with :data:`HIDDEN` in place
of secrets.

These are hidden:

- fields of bytes or text whose name is that of a secret, in any API and any release:
  ``AuthBytes`` (SaslAuthenticate, both ways), ``Hmac`` (delegation tokens), ``Salt`` and
  ``SaltedPassword`` (AlterUserScramCredentials), ``...Password``, ``...Secret``;
- ``RequestData`` and ``ResponseData`` (Envelope), which are whole messages;
- values of configurations: those whose name is that of a secret (see :func:`is_secret_name`), those
  that contain a password as in URLs (see :func:`holds_password`), those that the broker marks as
  sensitive, and those of an unknown type of resource (brokers themselves hide values by their type,
  and values whose names they do not know);
- unknown tagged fields of a message that has any of these.

A value of a record in the metadata log of the KRaft controllers is three unsigned varints (frame
version, API key, version) and a message (KIP-631). Only types of records that are known to have no
secrets may be shown.

The replacement text is Kafka's own (``Password.HIDDEN``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.wire import WireError, read_unsigned_varint

if TYPE_CHECKING:
    from kanalyze.kafka.codec.interpreter import TraceNode
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

HIDDEN = "[hidden]"

_SECRET_FIELD = re.compile(
    r"^(AuthBytes|RequestData|ResponseData|Salt)$|Hmac|Password|Secret|PrivateKey"
)
_SECRET_WORDS = (
    "passw",
    "pwd",
    "passphrase",
    "secret",
    "jaas",
    "credential",
    "certificate",
    "private",
    "token",
)
_SECRET_PHRASES = (
    "user.info",
    "userinfo",
    "connection.string",
    "connectionstring",
    "shared.access",
)
_SECRET_ENDINGS = frozenset(("pass", "sas", "license", "licence"))
_BETWEEN_WORDS = re.compile(r"[._-]")
_PASSWORD_PARAMETER = re.compile(
    r"[?&;,](?:password|passwd|pass|pwd|secret|client_?secret|token|access_?token|sig|signature"
    r"|api_?key|access_?key|account_?key|shared_?access_?key|shared_?access_?signature)=",
    re.IGNORECASE,
)
_AUTHORITY = re.compile(r"://[^/?#:@]*:(?!//)")
"""The part of a URL up to the colon in front of a password or a port."""
_HARMLESS_ENDINGS = frozenset(("ms", "seconds", "url", "class", "type", "location", "algorithm"))
_RESOURCE_TYPES = frozenset((2, 4, 8, 16, 32))
"""Topic, broker, broker logger, client metrics, group (ConfigResource.Type)."""


def is_secret_name(name: str) -> bool:
    """Return true if the value of a configuration is a secret, judged by its name.

    ``sasl.jaas.config``, ``listener.name.x.ssl.keystore.key``, ``client.secret``, ``db.pass`` and
    ``basic.auth.user.info`` are; ``delegation.token.expiry.time.ms`` and ``ssl.keystore.location``
    are not.
    """
    lower = _BETWEEN_WORDS.sub(".", name.lower())
    last = lower.rpartition(".")[2]
    if last in _HARMLESS_ENDINGS:
        return False
    if last.endswith("key") or last in _SECRET_ENDINGS:
        return True
    return any(words in lower for words in (*_SECRET_WORDS, *_SECRET_PHRASES))


def holds_password(value: str) -> bool:
    """Return true if the value of a configuration contains a password, judged by the value.

    URLs may: ``https://user:password@host``, ``jdbc:x://host?user=u&password=p`` and the connection
    strings of cloud services do; ``https://user@host:80`` does not. The value may be a list.
    """
    if "://" not in value:
        return False
    if _PASSWORD_PARAMETER.search(value) is not None:
        return True
    return any(map(_has_user_and_password, value.split()))


def _has_user_and_password(text: str) -> bool:
    """Return true if a URL in a text has ``user:password@``; a password may have any character."""
    last = text.rfind("@")
    return any(match.end() <= last for match in _AUTHORITY.finditer(text))


class Redactor:
    """Hides the secrets in messages of one definition."""

    def __init__(self, message: MessageSpec) -> None:
        self.plan = _plan(message.struct)
        """What to hide; None if the message has no secrets."""

    def redact_trace(self, root: TraceNode) -> None:
        """Replace the secrets in a trace, in place. The trace may be incomplete."""
        if self.plan is not None:
            _redact_node(root, self.plan, force=False)


class RedactionPlan(NamedTuple):
    """What to hide in a struct."""

    hidden: frozenset[str]
    """Names of secret fields."""
    pair: str | None
    """If the struct is a configuration with the field ``Value``: the name of the field that has the
    configuration's name. Otherwise None."""
    nested: dict[str, RedactionPlan]
    has_resource: bool
    """Whether the struct has a ``ResourceType``: the type of resource that is configured inside."""
    json_names: dict[str, str]


def _plan(struct: Struct) -> RedactionPlan | None:
    """Return what to hide in a struct; None for nothing."""
    hidden = frozenset(field.name for field in struct.fields if _is_secret(field))
    nested = {}
    for field in struct.fields:
        inner = None if field.struct is None else _plan(field.struct)
        if inner is not None:
            nested[field.name] = inner
    pair = _pair(struct)
    if not (hidden or nested or pair):
        return None
    return RedactionPlan(
        hidden,
        pair,
        nested,
        struct.field("ResourceType") is not None,
        {field.name: field.json_name for field in struct.fields},
    )


def _is_secret(field: Field) -> bool:
    return (
        field.element_type in ("bytes", "string") and _SECRET_FIELD.search(field.name) is not None
    )


def _pair(struct: Struct) -> str | None:
    value = struct.field("Value")
    if value is None or value.type != "string":
        return None
    return next((name for name in ("Name", "Key") if struct.field(name) is not None), None)


# -- values ---------------------------------------------------------------------------------------


def hide(
    values: dict[str, Any] | list[dict[str, Any]] | None, plan: RedactionPlan, *, force: bool
) -> None:
    """Replace the secrets in a struct, or in an array of structs, in place.

    ``force`` treats all values as secret, whatever their names are.
    """
    for item in _items(values):
        hidden, inside = hidden_in(item, plan, force=force)
        for name in hidden:
            item[name] = HIDDEN
        if "_taggedFields" in item:
            item["_taggedFields"] = [(tag, HIDDEN) for tag, _ in item["_taggedFields"]]
        for name, inner in plan.nested.items():
            hide(item.get(plan.json_names[name]), inner, force=inside)


def hidden_in(
    values: dict[str, Any], plan: RedactionPlan, *, force: bool
) -> tuple[frozenset[str], bool]:
    """Return which fields of a struct to hide, and the ``force`` for the structs inside it.

    Fields have the names that ``values`` has. Null fields are not hidden.
    """
    names = plan.json_names
    hidden = {names[name] for name in plan.hidden}
    if plan.has_resource and values.get("resourceType") not in _RESOURCE_TYPES:
        force = True
    if plan.pair is not None:
        named, value = values.get(names[plan.pair]) or "", values.get("value") or ""
        force = force or bool(values.get("isSensitive"))
        force = force or is_secret_name(named) or holds_password(value)
        if force:
            hidden.add("value")
    return frozenset(name for name in hidden if values.get(name) is not None), force


def _items(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


# -- traces ---------------------------------------------------------------------------------------


def _redact_node(node: TraceNode, plan: RedactionPlan, *, force: bool) -> None:
    """Hide the secrets in a struct's node; an incomplete struct is treated as sensitive."""
    fields = _fields_of(node)
    if plan.has_resource and _value(fields, "ResourceType") not in _RESOURCE_TYPES:
        force = True
    if plan.pair is not None:
        sensitive = node.end is None or _value(fields, "IsSensitive")
        force = force or bool(sensitive) or is_secret_name(_value(fields, plan.pair) or "")
        force = force or holds_password(_value(fields, "Value") or "")
        if force:
            _hide_node(fields.get("Value"))
    for name, child in fields.items():
        if name in plan.hidden or child.field is None:
            _hide_node(child)
        elif name in plan.nested:
            for item in _struct_nodes(child):
                _redact_node(item, plan.nested[name], force=force)


def _fields_of(node: TraceNode) -> dict[str, TraceNode]:
    fields = {}
    for child in node.children:
        if child.name == "_taggedFields":
            fields.update({inner.name: inner for inner in child.children})
        else:
            fields[child.name] = child
    return fields


def _value(fields: dict[str, TraceNode], name: str) -> Any:
    node = fields.get(name)
    return None if node is None else node.value


def _hide_node(node: TraceNode | None) -> None:
    if node is not None and not node.is_null:
        node.value = HIDDEN
        node.children.clear()


def _struct_nodes(node: TraceNode) -> list[TraceNode]:
    if node.field is not None and node.field.is_array:
        return node.children
    return [node]


METADATA_TOPICS = frozenset(("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"))
"""The name and the topic id of the log."""

_FRAME_VERSIONS = (0, 1)
_CONFIG = 4
_HARMLESS = frozenset(
    # Brokers, topics, partitions, features, quotas, producer ids, ACLs, no-ops, migration, the
    # removal of credentials, transactions, controllers: not ConfigRecord (4), DelegationTokenRecord
    # (10), UserScramCredentialRecord (11).
    (0, 1, 2, 3, 5, 6, 7, 8, 9, 12, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28)
)


def holds_credentials(value: bytes) -> bool:
    """Return true if a value has credentials; true if it cannot be read."""
    try:
        frame_version, at = read_unsigned_varint(value, 0)
        api_key, at = read_unsigned_varint(value, at)
        _, at = read_unsigned_varint(value, at)
        if frame_version not in _FRAME_VERSIONS:
            return True
        return _is_secret_config(value, at) if api_key == _CONFIG else api_key not in _HARMLESS
    except (WireError, IndexError):
        return True


def _is_secret_config(value: bytes, at: int) -> bool:
    """Return true if a ConfigRecord sets a secret; raises WireError or IndexError if malformed."""
    _, at = _text(value, at + 1)  # the resource type takes one byte; its name follows
    name, at = _text(value, at)
    setting, _ = _text(value, at)
    return is_secret_name(name) or holds_password(setting)


def _text(value: bytes, at: int) -> tuple[str, int]:
    """Read a compact string, null as ``""``; return it and the position after it."""
    size, at = read_unsigned_varint(value, at)
    end = at + max(size - 1, 0)
    if end > len(value):
        raise IndexError(end)
    return value[at:end].decode("utf-8", "backslashreplace"), end
