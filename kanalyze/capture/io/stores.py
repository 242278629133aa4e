"""Captures that are named by a URL: in object stores, on HDFS, on web servers.

In: a URL (``s3://bucket/key``, ``file:///folder``, ``https://host/file``). Out: its parts, and its
form without credentials; binary files, and the URLs that a folder or a pattern stands for.

A URL may hold credentials: a user's password before the host, keys or signatures after a ``?``.
They are used and never shown: not in names, not in messages.

pyarrow opens the schemes that it knows (file, s3, gs, hdfs, abfs): it reads only the requested
bytes and needs no other package. fsspec opens all others, if it is installed: its file systems read
megabytes to get the first bytes of an object, and each needs another package. Neither is imported
without a URL.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL: Final = r"[A-Za-z][A-Za-z0-9+.-]+://"
_CONTAINER_FIRST: Final = ("abfs", "wasb")
"""Schemes whose part before the ``@`` is the container, with a password after a colon."""


def is_url(text: str) -> bool:
    """Tell a URL from a path."""
    return "://" in text and re.match(_URL, text) is not None


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


_HTTP_NOT_FOUND: Final = 404
_SAFE: Final = "/%:@!$&'()+,;=~"
_WEB: Final = frozenset({"http", "https"})
_ARROW_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's schemes, and those of pyarrow for the same store."""
_FIRST_READ_BYTES: Final = 64 << 10
_MAX_READ_BYTES: Final = 4 << 20


class _Entry(NamedTuple):
    name: str
    """The name in its folder, or a whole URL."""
    is_folder: bool


class KnownFile(NamedTuple):
    """The properties of a file in a file system; None if unknown."""

    total_bytes: int | None
    modified_ns: int | None
    """Unix time in ns."""


class _ArrowStore:
    """A file system of pyarrow."""

    has_quoted_urls = True
    """A percent sign in a URL quotes a character, as in RFC 3986."""
    can_seek = True
    """An open file can be read from any offset on."""

    def __init__(self, system: Any) -> None:
        self._system = system

    def open(self, path: str) -> Any:
        return self._system.open_input_file(path)

    def is_folder(self, path: str) -> bool:
        return bool(self._system.get_file_info(path).type == _file_type().Directory)

    def entries(self, path: str) -> list[_Entry]:
        selector = importlib.import_module("pyarrow.fs").FileSelector(path)
        infos = self._system.get_file_info(selector)
        return [_Entry(info.base_name, info.type == _file_type().Directory) for info in infos]

    def about(self, path: str) -> KnownFile | None:
        info = self._system.get_file_info(path)
        if info.type == _file_type().NotFound:
            return None
        return KnownFile(info.size, info.mtime_ns)


def _file_type() -> Any:
    return importlib.import_module("pyarrow.fs").FileType


class _FsspecStore:
    """A file system of fsspec, with the interface of :class:`_ArrowStore`."""

    def __init__(self, system: Any, *, is_web: bool) -> None:
        self._system = system
        self._is_web = is_web
        self.has_quoted_urls = is_web
        self.can_seek = not is_web

    def open(self, path: str) -> Any:
        if self._is_web:
            # As one stream: not every server serves ranges.
            return self._system.open(path, "rb", block_size=0)
        return self._system.open(path, "rb")

    def is_folder(self, path: str) -> bool:
        if self._is_web:
            # A page that does not look like a folder is not read for links.
            return path.partition("?")[0].endswith("/")
        return bool(self._system.isdir(path))

    def entries(self, path: str) -> list[_Entry]:
        items = self._system.ls(path, detail=True)
        if self._is_web:
            return [_Entry(item["name"], item["type"] == "directory") for item in items]
        base = path.rstrip("/").rpartition("/")[2]
        names = ((item["name"].rstrip("/").rpartition("/")[2], item["type"]) for item in items)
        # Object stores may list the folder itself, as an empty object.
        return [_Entry(name, kind == "directory") for name, kind in names if name != base]

    def about(self, path: str) -> KnownFile | None:  # noqa: ARG002 - as the others
        # Each of these file systems names the properties differently, and many have none.
        return KnownFile(None, None)


_Store: TypeAlias = "_ArrowStore | _FsspecStore"


class Stores:
    """File systems by URL; each is connected once."""

    def __init__(self) -> None:
        self._connected: dict[tuple[str, str], tuple[_Store, str]] = {}
        """By the URL's root and query: the file system, and the prefix of its paths."""

    def open(self, url: str) -> tuple[io.RawIOBase, int | None]:
        """Open a file; return it, and its size if known.

        Raises :class:`CaptureError` when it cannot be opened.
        """
        with _asking(url):
            store, path = self._store(split_url(url))
            file = store.open(path)
            size = getattr(file, "size", None)
            if callable(size):
                size = size()
        stored = _ReadAhead(file, url, can_seek=store.can_seek)
        return stored, size if isinstance(size, int) else None

    def expand(self, url: str) -> tuple[list[str], bool]:
        """Return the files that a URL names, and whether it names a folder.

        ``*`` and ``[...]`` in the path are patterns, for any part of it; ``?`` begins the query.

        Raises :class:`CaptureError` when the file system cannot be asked.
        """
        parts = split_url(url)
        with _asking(url):
            if "*" in parts.path or "[" in parts.path:
                return sorted(self._matching(parts)), False
            store, path = self._store(parts)
            if store.is_folder(path):
                return sorted(self._files(parts)), True
        return [url], False

    def about(self, url: str) -> KnownFile | None:
        """Return the properties of a file; None if it does not exist.

        Raises :class:`CaptureError` when the file system cannot be asked.
        """
        with _asking(url):
            store, path = self._store(split_url(url))
            return store.about(path)

    def _matching(self, parts: UrlParts) -> list[str]:
        """Match a pattern part by part."""
        first, *more_parts = parts.path.lstrip("/").split("/")
        folders = [parts._replace(path="")]
        for pattern in [first, *more_parts[:-1]] if more_parts else []:
            folders = [child for parent in folders for child in self._folders(parent, pattern)]
        last = more_parts[-1] if more_parts else first
        return [
            url
            for folder in folders
            for url in self._files(folder, hidden=paths.is_hidden(last))
            if _fits(self._name_of(url), last)
        ]

    def _folders(self, parent: UrlParts, pattern: str) -> Iterator[UrlParts]:
        if "*" not in pattern and "[" not in pattern:
            yield parent._replace(path=f"{parent.path}/{pattern}")
            return
        for entry in self._entries(parent):
            url = self._child(parent, entry).rstrip("/")
            name = self._name_of(url)
            if paths.is_hidden(name) and not paths.is_hidden(pattern):
                continue
            if entry.is_folder and _fits(name, pattern):
                yield split_url(url)

    def _files(self, folder: UrlParts, *, hidden: bool = False) -> list[str]:
        """Return the files of a folder; hidden ones only if asked for."""
        urls = [
            self._child(folder, entry) for entry in self._entries(folder) if not entry.is_folder
        ]
        return [url for url in urls if hidden or not paths.is_hidden(self._name_of(url))]

    def _entries(self, folder: UrlParts) -> list[_Entry]:
        if folder.scheme.lower() in _WEB and not folder.path.endswith("/"):
            folder = folder._replace(path=f"{folder.path}/")
        store, path = self._store(folder)
        return store.entries(path)

    def _child(self, folder: UrlParts, entry: _Entry) -> str:
        if is_url(entry.name):
            return entry.name
        store, _ = self._store(folder)
        name = _quote(entry.name) if store.has_quoted_urls else entry.name
        return folder.with_path(f"{folder.path.rstrip('/')}/{name}")

    def _name_of(self, url: str) -> str:
        """Return the last part of a URL's path, as patterns see it."""
        parts = split_url(url)
        name = parts.path.rstrip("/").rpartition("/")[2]
        return _unquote(name) if self._store(parts)[0].has_quoted_urls else name

    def _store(self, parts: UrlParts) -> tuple[_Store, str]:
        """Return the file system of a URL, and the file's name in it."""
        key = (parts.root, parts.query)
        if key in self._connected:
            store, prefix = self._connected[key]
            return store, prefix + _path(store, parts)
        store, full_path = _connect(parts)
        path = _path(store, parts)
        if full_path.endswith(path):
            self._connected[key] = (store, full_path.removesuffix(path))
        return store, full_path


# Modules that only URLs need are not imported for files.


def _fits(name: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)


def _quote(text: str, safe: str = "/") -> str:
    from urllib.parse import quote

    return quote(text, safe=safe)


def _unquote(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text)


def _path(store: _Store, parts: UrlParts) -> str:
    return _unquote(parts.path) if isinstance(store, _ArrowStore) else parts.path


def arrow_url(url: str) -> str:
    """Return a URL with pyarrow's name of its scheme: ``s3`` for Hadoop's ``s3a``."""
    parts = split_url(url)
    known = parts._replace(scheme=_ARROW_SCHEMES.get(parts.scheme.lower(), parts.scheme))
    return known.with_path(parts.path)


def _connect(parts: UrlParts) -> tuple[_Store, str]:
    url = parts.with_path(parts.path)
    # pyarrow requires some characters to be quoted that users may leave unquoted: spaces, and "#".
    strict = arrow_url(parts.with_path(_quote(parts.path, _SAFE)))
    if parts.scheme.lower() not in _WEB:
        arrow = importlib.import_module("pyarrow")
        try:
            system, path = importlib.import_module("pyarrow.fs").FileSystem.from_uri(strict)
            return _ArrowStore(system), path
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            if "Unrecognized filesystem" not in str(error) and not isinstance(
                error, arrow.ArrowNotImplementedError
            ):
                raise
    is_web = parts.scheme.lower() in _WEB
    try:
        system, path = importlib.import_module("fsspec.core").url_to_fs(url)
    except ImportError:
        # For a scheme of its own fsspec names the package. It may be there, brought by another
        # package, without what reads the web.
        if not is_web and sys.modules.get("fsspec.core") is not None:
            raise
        raise CaptureError(
            f"{shown_url(url)}: reading {parts.scheme}:// needs fsspec: "
            "pip install 'kanalyze[remote]'"
        ) from None
    return _FsspecStore(system, is_web=is_web), path


class _ReadAhead(io.RawIOBase):
    """Reads a stored file in portions that grow, as each read may be a request over the network.

    So reading the start takes few bytes, and reading the whole file takes few requests.
    """

    def __init__(self, file: Any, url: str, *, can_seek: bool) -> None:
        super().__init__()
        self._file = file
        self._url = url
        self._can_seek = can_seek
        self._portion = _FIRST_READ_BYTES
        self._ahead = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._can_seek

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset; raises OSError, whose text holds no secret."""
        if whence != io.SEEK_SET or not self._can_seek:
            raise io.UnsupportedOperation("can only be read from its beginning on")
        try:
            self._file.seek(offset)
        except _errors() as error:
            raise OSError(_reason(error, self._url)) from None
        self._ahead = memoryview(b"")
        return offset

    def readinto(self, target: Any) -> int:
        """Fill the start of ``target``; raises OSError, whose text holds no secret."""
        if not self._ahead:
            try:
                data = self._file.read(self._portion)
            except _errors() as error:
                raise OSError(_reason(error, self._url)) from None
            self._ahead = memoryview(data)
            self._portion = min(2 * self._portion, _MAX_READ_BYTES)
        count = min(len(self._ahead), len(target))
        target[:count] = self._ahead[:count]
        self._ahead = self._ahead[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _errors() -> tuple[type[Exception], ...]:
    """Return what file systems raise; aiohttp's errors are not all OSErrors."""
    errors: tuple[type[Exception], ...] = (OSError, ValueError, ImportError, NotImplementedError)
    client = sys.modules.get("aiohttp")
    return errors if client is None else (*errors, client.ClientError)


@contextmanager
def _asking(url: str) -> Iterator[None]:
    """Raise CaptureError if the file system of a URL fails in the block."""
    try:
        yield
    except _errors() as error:
        raise CaptureError(f"{shown_url(url)}: {_reason(error, url)}") from None


def _reason(error: Exception, url: str) -> str:
    """Return the reason in one line, without the URL's secrets."""
    if isinstance(error, FileNotFoundError):
        cause = error.__cause__
        if not isinstance(cause, Exception) or isinstance(cause, FileNotFoundError):
            return "no such file"
        # fsspec also calls a file missing when its server cannot be reached.
        if getattr(cause, "status", None) == _HTTP_NOT_FOUND:
            return "no such file"
        error = cause
    if isinstance(error, IsADirectoryError):
        return "is a folder"
    text = (str(error) or type(error).__name__).splitlines()[0]
    return scrubbed(text, url)
