"""A folder in a Hadoop file system: the rows, record and checkpoints of a batch.

In: a session, a path or a URL, names, bytes. Out: bytes, names.

Spark reads the rows through Hadoop, and may write them: so this uses the same file systems, URLs
(s3a, hdfs, abfs) and credentials, which pyarrow does not know. Tasks cannot reach Hadoop: they use
pyarrow (:mod:`kanalyze.batch.shared_folder`). A reader of a file sees all of it or none.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from kanalyze.batch.shared_folder import FileEntry, names_of_location
from kanalyze.capture.io.stores import scrubbed
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HadoopFolder"]

_PRIVATE_FILE, _PRIVATE_FOLDER = "600", "700"
_MISSING: Final = "java.io.FileNotFoundException"


class HadoopFolder:
    """A folder, which need not exist yet. Names are relative to it; methods raise UsageError."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        """``location`` is a path or a URL; raises UsageError if no file system opens it."""
        gateway, context = spark.sparkContext._gateway, spark.sparkContext._jsc
        assert gateway is not None, "there is a session"
        self._new_array = gateway.new_array
        self._jvm: Any = gateway.jvm
        self._fs: Any = self._jvm.org.apache.hadoop.fs
        self._location = location
        self.shown, self.url = names_of_location(location)
        """The location for messages, without credentials, and for readers and writers of Spark."""
        try:
            path = self._fs.Path(self.url)
            settings = context.hadoopConfiguration()
            self._files: Any = self._fs.FileContext.getFileContext(path.toUri(), settings)
            self._root: str = self._files.makeQualified(path).toString().rstrip("/")
        except Py4JJavaError as error:
            raise self._error(error) from None

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None if it does not exist."""
        try:
            stream = self._files.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise self._error(error) from None

    def write(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is replaced."""
        folder, _, base_name = name.rpartition("/")
        partial = f"{folder}/.{base_name}.{uuid.uuid4().hex}".lstrip("/")
        flags = self._fs.CreateFlag
        create_flags = self._jvm.java.util.EnumSet.of(flags.CREATE)
        option_type = getattr(self._fs, "Options$CreateOpts")
        options = self._new_array(option_type, 1)
        options[0] = option_type.createParent()
        try:
            stream = self._files.create(self._path(partial), create_flags, options)
            try:
                stream.write(data)
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise self._error(error) from None
        self.move(partial, name)

    def files(self, folder: str) -> list[FileEntry]:
        """Return the files below a folder, sorted; nothing if it does not exist."""
        entries = []
        try:
            statuses = self._files.util().listFiles(self._path(folder), True)
            while statuses.hasNext():
                status = statuses.next()
                name = status.getPath().toString().removeprefix(f"{self._root}/")
                entries.append(FileEntry(name, status.getLen()))
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise self._error(error) from None
        return sorted(entries)

    def move(self, old: str, new: str) -> None:
        """Rename a file; an existing file with the new name is replaced."""
        target = self._path(new)
        option_type = getattr(self._fs, "Options$Rename")
        options = self._new_array(option_type, 1)
        options[0] = option_type.OVERWRITE
        mode = self._fs.permission.FsPermission.getDirDefault()
        try:
            self._files.mkdir(target.getParent(), mode, True)
            self._files.rename(self._path(old), target, options)
        except Py4JJavaError as error:
            raise self._error(error) from None

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        try:
            self._files.delete(self._path(name), True)
        except Py4JJavaError as error:
            if not _is_missing(error):
                raise self._error(error) from None

    def make_private(self, name: str) -> None:
        """Let only the owner read a folder and all that is in it; create it if need be."""
        permission_of = self._fs.permission.FsPermission
        for_files, for_folders = permission_of(_PRIVATE_FILE), permission_of(_PRIVATE_FOLDER)
        try:
            self._files.mkdir(self._path(name), for_folders, True)
            folders = [self._path(name)]
            while folders:
                folder = folders.pop()
                self._files.setPermission(folder, for_folders)
                for status in self._files.util().listStatus(folder):
                    if status.isDirectory():
                        folders.append(status.getPath())
                    else:
                        self._files.setPermission(status.getPath(), for_files)
        except Py4JJavaError as error:
            raise self._error(error) from None

    def _path(self, name: str) -> Any:
        return self._fs.Path(f"{self._root}/{name}" if name else self._root)

    def _error(self, error: Py4JJavaError) -> UsageError:
        java_error = error.java_exception
        text = java_error.getMessage() or java_error.getClass().getSimpleName()
        line = str(text).splitlines()[0]
        return UsageError(f"{self.shown}: {scrubbed(line, self._location)}")


def _is_missing(error: Py4JJavaError) -> bool:
    return bool(error.java_exception.getClass().getName() == _MISSING)
