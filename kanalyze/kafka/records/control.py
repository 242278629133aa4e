"""The types of control records (KIP-98, KIP-595).

In: the key of a control record. Out: its type.
"""

from __future__ import annotations

from struct import Struct

__all__ = ["control_type"]

_CONTROL_TYPES = (
    *("abort", "commit", "leader_change", "snapshot_header", "snapshot_footer"),
    *("kraft_version", "kraft_voters"),
)
_control_key = Struct(">hh").unpack_from


def control_type(key: bytes | None) -> str:
    """Return the type of a control record from its key: a version and a type."""
    if key is None or len(key) < 4:
        return "unknown"
    number = _control_key(key, 0)[1]
    return _CONTROL_TYPES[number] if 0 <= number < len(_CONTROL_TYPES) else "unknown"
