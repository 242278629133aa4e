"""URLs of captures: their parts, and the form without credentials.

In: text. Out: text.

A URL may hold credentials: a user's password before the host, keys or signatures after a ``?``.
They are used and never shown: not in names, not in messages.
"""

from __future__ import annotations

import os
import re
from typing import Final

from kanalyze.common.named_tuples import NamedTuple

__all__ = [
    "UrlParts",
    "absolute_path",
    "is_url",
    "local_path",
    "scrubbed",
    "shown_url",
    "split_url",
]

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CONTAINER_FIRST: Final = ("abfs", "wasb")
"""Schemes whose part before the ``@`` is the container, with a password after a colon."""


def is_url(text: str) -> bool:
    """Tell a URL from a path."""
    return _URL.match(text) is not None


def local_path(text: str) -> str | None:
    """Return the path that a path or a ``file://`` URL names; None for any other URL.

    Nothing is decoded: fsspec takes such a URL as it is.
    """
    if not is_url(text):
        return text
    scheme, _, path = text.partition("://")
    return path if scheme.lower() == "file" and path.startswith("/") else None


def absolute_path(text: str, folder: str) -> str:
    """Return a path below a folder if it is relative; a URL as it is."""
    return text if is_url(text) else os.path.join(folder, text)  # noqa: PTH118 - as it was given


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without user, password and query."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.shown_host}{parts.path}"


class UrlParts(NamedTuple):
    """The parts of a URL; concatenated (with ``://``) they are the URL."""

    scheme: str
    user: str
    """Up to and with the ``@``; not decoded."""
    host: str
    path: str
    """From the slash on; not decoded."""
    query: str
    """From the question mark on."""

    @property
    def root(self) -> str:
        """The URL of the store, with credentials."""
        return f"{self.scheme}://{self.user}{self.host}"

    @property
    def shown_host(self) -> str:
        """The host, and container, of the store, without credentials."""
        container = self.user.partition(":")[0].rstrip("@")
        if container and self.scheme.lower().startswith(_CONTAINER_FIRST):
            return f"{container}@{self.host}"
        return self.host

    def with_path(self, path: str) -> str:
        """Return the URL of another file in the same store."""
        return f"{self.root}{path}{self.query}"


def split_url(url: str) -> UrlParts:
    """Split a URL into its parts."""
    scheme, _, remainder = url.partition("://")
    # No fragment is split off: "#" may be part of an object's name.
    remainder, mark, query = remainder.partition("?")
    host, slash, path = remainder.partition("/")
    user, at, host = host.rpartition("@")
    return UrlParts(scheme, user + at, host, slash + path, mark + query)


def scrubbed(text: str, url: str) -> str:
    """Remove the secrets of the URL from a message."""
    from urllib.parse import unquote  # not for paths

    parts = split_url(url)
    user, query = parts.user.rstrip("@"), parts.query.lstrip("?")
    secrets = [query, user, *user.split(":")[1:]]
    secrets += [value.partition("=")[2] for value in query.split("&")]
    text = text.replace(url, shown_url(url))
    for secret in sorted({*secrets, *map(unquote, secrets)}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    return text
