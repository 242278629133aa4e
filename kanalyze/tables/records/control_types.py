"""What brokers write for themselves: names of control records.

In: the key of a control record. Out: its name. This module must not know of batches.
"""

from __future__ import annotations

from struct import Struct

__all__ = ["control_type"]

_CONTROL_TYPES = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)
_control_key = Struct(">hh").unpack_from


def control_type(key: bytes | None) -> str:
    """Name what the key of a control record says: int16 version, int16 type (KIP-98, KIP-595)."""
    if key is None or len(key) < 4:
        return "unknown"
    number = _control_key(key, 0)[1]
    return _CONTROL_TYPES[number] if 0 <= number < len(_CONTROL_TYPES) else "unknown"
