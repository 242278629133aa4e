"""What options name: files of keys and topic names, outputs that must not be inputs, filters.

In: paths, and conditions as a user wrote them. Out: a :class:`~kanalyze.tls.keylog.KeyLog`, names
by 16-byte id, a :class:`~kanalyze.tables.filters.RowFilter`, or a UsageError.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kanalyze.common import paths
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.tables.filters import RowFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO, TypeAlias

    from kanalyze.common.paths import FileIdentity
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.tables.names import AddressNames
    from kanalyze.tables.records.schemas import Schema, SchemaColumns
    from kanalyze.tls.keylog import KeyLog

    _Input: TypeAlias = str | os.PathLike[str] | BinaryIO

_T = TypeVar("_T")
_PIECE_BYTES: Final = 1 << 20
_LARGEST_FILE_BYTES: Final = 256 * 1024 * 1024


def read_key_logs(files: Iterable[str]) -> KeyLog | None:
    """Return the secrets in all files, which have the NSS key log format; None without files.

    Raises:
        UsageError: a file cannot be read, or has lines but no secrets; the text names the file.
    """
    log: KeyLog | None = None
    for path in files:
        if log is None:
            from kanalyze.tls.keylog import KeyLog  # imported late: only with keys

            log = KeyLog()
        _read(path, log)
        log.names.append(os.path.split(path)[1])
    return log


def _read(path: str, log: KeyLog) -> None:
    from kanalyze.common.argument_values import opening  # imported late: few commands have files

    lines_before, wrong_lines_before = log.lines, log.wrong_lines
    with opening(path), paths.opened(path) as file:
        while piece := file.read(_PIECE_BYTES):
            log.feed(piece)
    log.end()
    # An empty file is valid: the program has made no TLS connection.
    lines, wrong_lines = log.lines - lines_before, log.wrong_lines - wrong_lines_before
    if 0 < lines == wrong_lines:
        from kanalyze.tls.keylog import NOT_A_KEY_LOG

        raise UsageError(f"{path}: {NOT_A_KEY_LOG}")


def read_topic_ids(path: str | Path) -> dict[bytes, str]:
    """Return the names of topics in a file, by 16-byte id.

    The file has lines ``ID NAME``, or is a JSON object; ids are in Kafka's base64 or UUIDs (see
    :func:`~kanalyze.tables.requests.topic_names.parse_topic_ids`).

    Raises:
        UsageError: the file cannot be read, or is invalid; the text names it.
    """
    # Imported late: only needed if there is a file.
    from kanalyze.tables.requests.topic_names import parse_topic_ids

    return _of_text(path, parse_topic_ids)


def read_schemas(folder: str | Path) -> SchemaColumns:
    """Return the schemas in the files of a folder whose names end as schemas do (``FILE_ENDINGS``).

    Raises:
        ModuleNotFoundError: the library for one of the schemas is not installed.
        UsageError: the folder or a file cannot be read, or is invalid; the text names it.
    """
    # Imported late: few commands have schemas.
    from pathlib import Path

    from kanalyze.common.argument_values import opening
    from kanalyze.tables.records.schemas import FILE_ENDINGS, SchemaColumns, parse_schemas

    with opening(folder):
        files = sorted(path for path in Path(folder).iterdir() if path.suffix in FILE_ENDINGS)
    if not files:
        raise UsageError(f"{folder}: no file ends in {', '.join(FILE_ENDINGS)}")
    schemas: list[Schema] = []
    for file in files:
        schemas += _of_text(file, partial(parse_schemas, file.name))
    return SchemaColumns(schemas)


def _of_text(path: str | Path, parse: Callable[[str], _T]) -> _T:
    """Return what ``parse`` makes of a file's text; raises UsageError, which names the file."""
    from kanalyze.common.argument_values import opening

    with opening(path), io.TextIOWrapper(paths.opened(path), encoding="utf-8") as file:
        try:
            text = file.read(_LARGEST_FILE_BYTES)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text") from error
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def check_output(
    output: str | os.PathLike[str], captures: Iterable[_Input]
) -> frozenset[FileIdentity]:
    """Raise UsageError if a file that is to be written is one of the captures, by any name.

    Nothing is opened: files are compared by device and inode, so links are followed.

    A file that a folder or a glob names is left out of the captures instead. Return the identity of
    the output, as :class:`~kanalyze.runtime.pipeline.Analysis` takes it; nothing if it is new.
    """
    output_identity = paths.file_identity(output)
    if output_identity is None:
        return frozenset()
    for capture_status in _statuses(captures):
        if paths.identity_of(capture_status) == output_identity:
            raise UsageError(f"{os.fspath(output)}: is also an input: use another output file")
    return frozenset({output_identity})


def _statuses(captures: Iterable[_Input]) -> Iterator[os.stat_result]:
    """Yield the status of each file that captures name themselves, and of open files."""
    from kanalyze.capture.inputs import local_files  # imported late: slow

    for capture in captures:
        # A folder that cannot be listed is reported when it is read. An open file in memory has no
        # descriptor.
        with suppress(OSError):
            if not isinstance(capture, str | os.PathLike):
                yield os.fstat(capture.fileno())
                continue
            named = local_files(capture)
            status = paths.stat_of(named.paths[0]) if named.is_explicit else None
            if status is not None:
                yield status


def make_filter(
    catalog: Catalog | None = None, *, names: AddressNames | None = None, **conditions: Any
) -> RowFilter:
    """Return a filter that knows the API names of ``catalog``, or the built-in ones.

    ``names`` are those of addresses, which some filters select by; ``conditions`` are those of
    ``RowFilter.parse``.
    """
    of_apis = api_names(catalog or Catalog()) if conditions.get("api") else None
    return RowFilter.parse(api_names=of_apis, **conditions).naming(names)


def keeps_bytes(row_filter: RowFilter, catalog: Catalog) -> KeepsBytes:
    """Return a predicate that is true for the keys of the APIs that a filter selects.

    An analysis takes it as ``keep``, to keep the bytes of their messages for decoding.
    """
    apis = row_filter.get("api")
    if apis is None:
        return _always
    # Produce and Fetch have the same API keys in Kafka 0.7.
    keys = {name.lower(): key for name, key in api_names(catalog).items()}
    return {*apis.keys, *map(keys.get, apis.lower_names)}.__contains__


def _always(_: int) -> bool:
    return True


def api_names(catalog: Catalog) -> dict[str, int]:
    """Return API keys by name, for the APIs of a catalog and those of other wires."""
    # Keys of other wires are those of other APIs here, so only names count.
    from kanalyze.kafka.other_wires import other_wires  # imported late: few filters need it

    names = {name: key for wire in other_wires() for name, key in wire.api_keys().items()}
    return names | {api.name: api.key for api in catalog.apis}
