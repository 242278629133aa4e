"""What a request header may say without being taken for other bytes.

In: an API and a version, or a client id, that bytes would have if they were a request header. Out:
true or false, or the limits, for those that look at bytes before they are read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Api, Catalog

__all__ = [
    "LONGEST_CLIENT_ID_BYTES",
    "has_control",
    "highest_plausible_version",
    "is_plausible_client_id",
    "is_plausible_version",
]

_NEWER_VERSIONS = 8
"""How many versions beyond the tables a request may have."""
_LONGEST_CLIENT_ID = 1024
LONGEST_CLIENT_ID_BYTES = 4 * _LONGEST_CLIENT_ID
"""A character of UTF-8 has at most four bytes."""
_CONTROL = re.compile("[\0-\x1f\x7f]")


def highest_plausible_version(api: Api) -> int:
    """Return the highest version that a request to an API may have."""
    return api.versions.highest + _NEWER_VERSIONS


def is_plausible_version(catalog: Catalog, api_key: int, api_version: int) -> bool:
    """Return true if the API is known, and the version is known or slightly newer."""
    api = catalog.api(api_key)
    return api is not None and 0 <= api_version <= highest_plausible_version(api)


def is_plausible_client_id(client_id: str | None) -> bool:
    """Return true for text of a usual length without control characters, and for None."""
    if client_id is None:
        return True
    return len(client_id) <= _LONGEST_CLIENT_ID and not has_control(client_id)


def has_control(text: str) -> bool:
    """Return true if a text has control characters of ASCII, as bytes that are no text mostly have.

    A client id may have any other character. Which of these are printable depends on the version of
    Unicode, and a stand-in for an emoji is rarely another one.
    """
    return not text.isprintable() and _CONTROL.search(text) is not None
