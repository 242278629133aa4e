"""The state folder of a stream: small files that the driver and all tasks read and write.

In: a path or a URL, names, bytes. Out: bytes. Must not know: what is in the files.

pyarrow opens it (file, s3, gs, hdfs, abfs), as Python tasks cannot reach the JVM, whose Hadoop file
systems :mod:`kanalyze.spark.batch.hadoop_folder` uses. A file is written under another name and
then moved, so a reader sees all of it or none; object stores do that by themselves.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType

from kanalyze.capture.io.urls import is_url, scrubbed, shown_url
from kanalyze.errors import UsageError

__all__ = ["StateFolder"]

_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})


class StateFolder:
    """A folder; it is made when the first file is written."""

    def __init__(self, location: str) -> None:
        """``location`` is a path or a URL; raises UsageError if no file system opens it."""
        self._location = location
        self.shown = shown_url(location) if is_url(location) else location
        """The location for messages, without credentials."""
        try:
            if is_url(location):
                self._system, self._root = FileSystem.from_uri(location)
            else:
                self._system, self._root = FileSystem.from_uri(str(Path(location).resolve()))
        except (ArrowException, OSError, ValueError) as error:
            raise self._error(error) from None

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist. Raises UsageError."""
        try:
            with self._system.open_input_stream(self._path(name)) as source:
                return bytes(source.read())
        except FileNotFoundError:
            return None
        except (ArrowException, OSError) as error:
            raise self._error(error) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is replaced. Raises UsageError."""
        path = self._path(name)
        parent = path.rpartition("/")[0]
        is_atomic = self._system.type_name in _OBJECT_STORES
        written = path if is_atomic else f"{parent}/.{uuid.uuid4().hex}"
        try:
            self._system.create_dir(parent)
            with self._system.open_output_stream(written) as target:
                target.write(data)
            if not is_atomic:
                self._system.move(written, path)
        except (ArrowException, OSError) as error:
            raise self._error(error) from None

    def names(self, folder: str) -> list[str]:
        """Return the names directly in a subfolder, sorted; nothing if it does not exist.

        Raises UsageError.
        """
        selector = FileSelector(self._path(folder), allow_not_found=True)
        try:
            found = self._system.get_file_info(selector)
        except (ArrowException, OSError) as error:
            raise self._error(error) from None
        return sorted(info.base_name for info in found if not info.base_name.startswith("."))

    def remove(self, folder: str) -> None:
        """Remove a folder below with all that is in it, if it is there. Raises UsageError."""
        try:
            if self._system.get_file_info(self._path(folder)).type == FileType.Directory:
                self._system.delete_dir(self._path(folder))
        except FileNotFoundError:
            return  # someone else was faster
        except (ArrowException, OSError) as error:
            raise self._error(error) from None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _error(self, error: Exception) -> UsageError:
        text = (str(error) or type(error).__name__).splitlines()[0]
        reason = scrubbed(text, self._location) if is_url(self._location) else text
        return UsageError(f"option stateLocation: {self.shown}: {reason}")
