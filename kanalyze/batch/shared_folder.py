"""A folder that the driver and all tasks read and write, without the JVM.

In: a path or a URL, names, bytes. Out: bytes, names.

As for captures, pyarrow opens it (file, s3, gs, hdfs, abfs), or else fsspec: Python tasks cannot
reach Hadoop's file systems in the JVM. A file is written under another name and then moved, so a
reader sees all of it or none; object stores do that by themselves.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyarrow import ArrowException, ArrowInvalid
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from kanalyze.capture.io.stores import arrow_url, is_url, scrubbed, shown_url
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATTERN: Final = frozenset("*?[")
_LOCAL: Final = "local"
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})


class FileEntry(NamedTuple):
    """A file in a folder."""

    name: str
    """Relative to the folder, with slashes."""
    total_bytes: int


class SharedFolder:
    """A folder; it is created when the first file is written. Methods raise UsageError."""

    def __init__(self, location: str) -> None:
        """Open a path or a URL; raises UsageError if no file system opens it."""
        self.shown = shown_url(location) if is_url(location) else location
        """The location for messages, without credentials."""
        self.location = location.rstrip("/") if is_url(location) else str(Path(location).resolve())
        """The location for other processes, whatever folder they run in."""
        try:
            self._system, self._root = _opened(self.location)
        except (ArrowException, ImportError, OSError, ValueError) as error:
            raise self._error(error) from None

    @property
    def url(self) -> str:
        """The location as records have it: Hadoop's way of writing a local path."""
        return self.location if is_url(self.location) else f"file:{self.location}"

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        try:
            with self._system.open_input_stream(self._path(name)) as source:
                return bytes(source.read())
        except FileNotFoundError:
            return None
        except (ArrowException, OSError) as error:
            raise self._error(error) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is replaced."""
        path = self._path(name)
        parent = path.rpartition("/")[0]
        is_atomic = self._system.type_name in _OBJECT_STORES
        written_path = path if is_atomic else f"{parent}/.{uuid.uuid4().hex}"
        with self.errors():
            self._system.create_dir(parent)
            with self._system.open_output_stream(written_path) as target:
                target.write(data)
            if not is_atomic:
                self._system.move(written_path, path)

    def make_private(self, name: str) -> None:
        """Let only the owner read a local folder and all that is in it; create it if need be."""
        if self._system.type_name != _LOCAL:
            return
        folder = Path(self._path(name))
        try:
            folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
            for path in (folder, *folder.rglob("*")):
                path.chmod(_PRIVATE_FOLDER if path.is_dir() else _PRIVATE_FILE)
        except OSError as error:
            raise self._error(error) from None

    def new_file(self, name: str) -> Any:
        """Return a stream into a new file, which others may see before it is closed."""
        path = self._path(name)
        with self.errors():
            self._system.create_dir(path.rpartition("/")[0])
            return self._system.open_output_stream(path)

    def open_file(self, name: str) -> Any:
        """Return a file to read, as :class:`pyarrow.NativeFile`."""
        with self.errors():
            return self._system.open_input_file(self._path(name))

    def plain_path(self, name: str) -> str | None:
        """Return the local path of a file; None if it is remote, or would be read as a pattern."""
        path = self._path(name)
        is_plain = self._system.type_name == _LOCAL and not _PATTERN.intersection(path)
        return path if is_plain else None

    def files(self, folder: str) -> list[FileEntry]:
        """Return all files below a subfolder, sorted; nothing if it does not exist."""
        selector = FileSelector(self._path(folder), allow_not_found=True, recursive=True)
        prefix_length = len(self._root) + 1
        with self.errors():
            return sorted(
                FileEntry(entry.path[prefix_length:], entry.size)
                for entry in self._system.get_file_info(selector)
                if entry.type == FileType.File
            )

    def move(self, old: str, new: str) -> None:
        """Rename a file; an existing file with the new name is replaced."""
        path = self._path(new)
        with self.errors():
            self._system.create_dir(path.rpartition("/")[0])
            self._system.move(self._path(old), path)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        path = self._path(name)
        try:
            kind = self._system.get_file_info(path).type
            if kind == FileType.Directory:
                self._system.delete_dir(path)
            elif kind != FileType.NotFound:
                self._system.delete_file(path)
        except FileNotFoundError:
            return  # another process removed it
        except (ArrowException, OSError) as error:
            raise self._error(error) from None

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise UsageError, with the folder's name, for errors of pyarrow in the block."""
        try:
            yield
        except (ArrowException, OSError) as error:
            raise self._error(error) from None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _error(self, error: Exception) -> UsageError:
        text = (str(error) or type(error).__name__).splitlines()[0]
        reason = scrubbed(text, self.location) if is_url(self.location) else text
        return UsageError(f"{self.shown}: {reason}")


def _opened(location: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or a URL, and the path there."""
    if not is_url(location):
        return LocalFileSystem(), location
    try:
        system, path = FileSystem.from_uri(arrow_url(location))
    except ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # for few schemes

        system, path = url_to_fs(location)
        system = PyFileSystem(FSSpecHandler(system))
    return system, path
