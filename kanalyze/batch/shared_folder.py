"""A folder that the driver and all tasks read and write, without the JVM.

In: a path or a URL, names, bytes. Out: bytes, names.

pyarrow opens it (file, s3, gs, hdfs, abfs), as Python tasks cannot reach the JVM, whose Hadoop file
systems :mod:`kanalyze.spark.hadoop_folder` uses. A file is written under another name and
then moved, so a reader sees all of it or none; object stores do that by themselves.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType

from kanalyze.capture.io.stores import is_url, scrubbed, shown_url
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["FileEntry", "SharedFolder", "location_of", "names_of_location"]

_PATTERN: Final = frozenset("*?[")
_LOCAL: Final = "local"
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})


def location_of(url: str) -> str:
    """Return a folder's URL as :class:`SharedFolder` takes it; Hadoop writes ``file:/path``."""
    return url if is_url(url) else url.removeprefix("file:")


def names_of_location(location: str) -> tuple[str, str]:
    """Return what messages call a path or a URL, without credentials, and its URL for Spark."""
    if is_url(location):
        return shown_url(location), location.rstrip("/")
    return location, f"file:{Path(location).resolve()}"


class FileEntry(NamedTuple):
    """A file in a folder."""

    name: str
    """Relative to the folder, with slashes."""
    total_bytes: int


class SharedFolder:
    """A folder; it is created when the first file is written. Methods raise UsageError."""

    def __init__(self, location: str) -> None:
        """Open a path or a URL; raises UsageError if no file system opens it."""
        self._location = location
        self.shown, self.url = names_of_location(location)
        """The location for messages, without credentials, and for readers of tables."""
        try:
            if is_url(location):
                self._system, self._root = FileSystem.from_uri(location)
            else:
                self._system, self._root = FileSystem.from_uri(str(Path(location).resolve()))
        except (ArrowException, OSError, ValueError) as error:
            raise self._error(error) from None

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

    def names(self, folder: str) -> list[str]:
        """Return the names directly in a subfolder, sorted, without those that begin with a dot."""
        entries = self._list(FileSelector(self._path(folder), allow_not_found=True))
        return sorted(entry.base_name for entry in entries if not entry.base_name.startswith("."))

    def files(self, folder: str) -> list[FileEntry]:
        """Return all files below a subfolder, sorted; nothing if it does not exist."""
        selector = FileSelector(self._path(folder), allow_not_found=True, recursive=True)
        prefix_length = len(self._root) + 1
        return sorted(
            FileEntry(entry.path[prefix_length:], entry.size)
            for entry in self._list(selector)
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

    def _list(self, selector: FileSelector) -> Iterable[Any]:
        with self.errors():
            entries: list[Any] = self._system.get_file_info(selector)
        return entries

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
        reason = scrubbed(text, self._location) if is_url(self._location) else text
        return UsageError(f"{self.shown}: {reason}")
