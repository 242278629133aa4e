"""URLs of captures: their parts, and what of them may be shown.

In: text. Out: text. Must not know: how anything is opened.

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
"""Before the ``@`` stands the container here, with the password behind a colon."""


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
    """The parts of a URL, which make it up when put together."""

    scheme: str
    user: str
    """Up to the ``@``, with it; as it is written."""
    host: str
    path: str
    """From the slash on; percent signs as they are written."""
    query: str
    """From the question mark on."""

    @property
    def root(self) -> str:
        """What names the store, with credentials."""
        return f"{self.scheme}://{self.user}{self.host}"

    @property
    def shown_host(self) -> str:
        """What names the store, without credentials."""
        container = self.user.partition(":")[0].rstrip("@")
        if container and self.scheme.lower().startswith(_CONTAINER_FIRST):
            return f"{container}@{self.host}"
        return self.host

    def with_path(self, path: str) -> str:
        """Return the URL of another file in the same store."""
        return f"{self.root}{path}{self.query}"


def split_url(url: str) -> UrlParts:
    """Take a URL apart."""
    scheme, _, remainder = url.partition("://")
    # A fragment is none here: "#" may be part of an object's name.
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
