"""Text forms of values and names that several outputs share.

In: decoded values. Out: short text.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache


def api_key_name(name: str) -> str:
    """Return the name of an API in Kafka's enumeration: ``LEADER_AND_ISR`` for ``LeaderAndIsr``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


@lru_cache(maxsize=4096)  # commits of offsets name the same few topics by the hundred thousand
def uuid_text(value: bytes) -> str:
    """Return 16 bytes as Kafka writes a UUID: 22 characters of URL-safe base64, no padding."""
    return base64.urlsafe_b64encode(value)[:22].decode("ascii")
