"""Finds credentials in the metadata log of the KRaft controllers.

In: the value of a record of ``__cluster_metadata``. Out: whether it may be shown.

A value is three unsigned varints (frame version, API key, version) and a message (KIP-631). Only
types of records that are known to have no secrets may be shown.
"""

from __future__ import annotations

from kanalyze.decoding.secrets import holds_password, is_secret_name
from kanalyze.kafka.codec.primitives import read_unsigned_varint
from kanalyze.kafka.wire import WireError

__all__ = ["METADATA_TOPICS", "holds_credentials"]

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
