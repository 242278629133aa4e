"""The state of a run as bytes, saved between two batches of packets and loaded into new stages.

In: stages and a row assembler between two batches. Out: bytes; and new stages and a new assembler
that continue as if there had been no break.

The bytes hold what open connections need: streams with the bytes buffered after a gap, incomplete
frames, requests without a response, log ends, fetch sessions; and the counters. For decrypted
connections, the bytes of incomplete frames are plaintext. Code and shared objects (readers,
decoders, catalogs, functions) are not saved: the new stages have their own. Nor are secrets or keys
of TLS: they are looked up in the key log of the new stages, by the values in the hellos. The names
of topics belong to the creator of the row assembler.

The format is a line of text (format, version, size, checksum), then compressed plain values. A
state of the format before is read too, whichever version wrote it: layouts of classes grow only at
their end (:func:`kanalyze.common.plain_values.fields`).
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from typing import TYPE_CHECKING, Final

from kanalyze.common.garbage_collection import no_collection
from kanalyze.common.plain_values import fields, from_bytes, to_bytes
from kanalyze.errors import KanalyzeError
from kanalyze.runtime.closing_rows import ClosingRowsError, before_state, rows_of, split
from kanalyze.runtime.one_pass import OnePass
from kanalyze.runtime.table_rows import SelectedRows, new_cluster_lines
from kanalyze.tables.quality import CaptureQuality
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.runtime.settings import RunContext
    from kanalyze.runtime.stages import Stages
    from kanalyze.runtime.table_rows import TableRows, Tables
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.cluster.reader import ClusterLines
    from kanalyze.tables.requests.row_assembler import RowAssembler

FORMAT: Final = 13
"""Must be raised once a release if the state of a class has changed its layout since the last."""
_READABLE: Final = (b"%d" % (FORMAT - 1), b"%d" % FORMAT)
MAX_BYTES: Final = 4 << 30
"""Limit of a state in bytes before compression. Stages buffer 1 GiB by default."""

_MAGIC: Final = b"kanalyze-state"
_LONGEST_LINE_BYTES: Final = 200
_DIGEST_BYTES: Final = 16
_COMPRESSION_LEVEL: Final = 1
_NO_STATE: Final = (ValueError, TypeError, OverflowError)
"""Exceptions that are raised while values that are not a state are loaded."""


class StateError(KanalyzeError):
    """Bytes are not the saved state of a run with the same settings."""


def save_state(
    stages: Stages, assembler: RowAssembler | None = None, lines: ClusterLines | None = None
) -> bytes:
    """Return the state of a run between two batches.

    Args:
        stages: stages between two batches, after all rows of the last batch were made.
        assembler: the assembler of all rows of the stages; None if there are no rows.
        lines: made the lines of groups and metadata for these rows; None if no such lines are made.

    Returns:
        Bytes for :func:`load_state`. What the assembler knows about closed connections is left
        out. An idle connection takes some 100 bytes; the list of recent packets, which detects
        packets that were captured twice, up to 35 kB.
    """
    with no_collection():
        still_open = list(stages.open_tcp())
        serials = {tcp.serial for tcp in still_open}
        of_rows = None if assembler is None else assembler.state(serials)
        of_lines = None if lines is None else lines.state(_names_of(still_open))
        return _sealed(to_bytes((_settings(stages), stages.state(), of_rows, of_lines)))


def _names_of(connections: Iterable[TcpConnection]) -> set[tuple[str, int]]:
    """Return the connections as rows name them, for either end as the client."""
    names = set()
    for tcp in connections:
        first, second = tcp.endpoints
        names |= {(f"{first}>{second}", tcp.connection_number)}
        names |= {(f"{second}>{first}", tcp.connection_number)}
    return names


def load_state(
    data: bytes,
    stages: Stages,
    assembler: RowAssembler | None = None,
    lines: ClusterLines | None = None,
) -> None:
    """Load a saved state into new stages and a new row assembler.

    Args:
        data: the result of :func:`save_state`, or of :func:`.closing_rows.before_state` with it.
        stages: new stages, made with the same arguments. They keep their reader, catalog and
            functions.
        assembler: a new assembler; None if none was saved. Its topic names must be those of the
            saved one.
        lines: new lines of groups and metadata; None if none were saved.

    Raises:
        StateError: the bytes are not a state, are damaged, or are of another format or of a run
            with other settings. Then nothing was changed.
    """
    plain = _opened(data)
    try:
        with no_collection():
            settings, state, of_rows, of_lines = fields(from_bytes(plain), "ttTT")
            if settings != _settings(stages):
                raise StateError("the state is of a run with other settings: run without it")
            if (assembler is None, lines is None) != (of_rows is None, of_lines is None):
                raise StateError("the state is of a run with other tables: run without it")
            parts = stages.parts_from_state(state)
            detectors = None if assembler is None else assembler.known_from_state(of_rows)
            metadata = None if lines is None else lines.seen_from_state(of_lines)
    except _NO_STATE as error:
        raise _damaged() from error
    stages.load_state(parts)
    if assembler is not None and detectors is not None:
        assembler.load_state(detectors)
    if lines is not None and metadata is not None:
        lines.load_state(metadata)


def _settings(stages: Stages) -> State:
    """Return what must be equal in both runs: settings, and the byte order of columns."""
    return sys.byteorder, stages.settings


# -- the line and the checksum --------------------------------------------------------------------


def _sealed(plain: bytes) -> bytes:
    packed = zlib.compress(plain, _COMPRESSION_LEVEL)
    line = b"%s %d %s %d " % (_MAGIC, FORMAT, __version__.encode(), len(plain))
    return b"%s%s\n%s" % (line, _digest(line, packed), packed)


def _digest(line: bytes, packed: bytes) -> bytes:
    digest = hashlib.blake2b(line, digest_size=_DIGEST_BYTES)
    digest.update(packed)
    return digest.hexdigest().encode()


def _opened(data: bytes) -> bytes:
    """Return the plain values as bytes; raises StateError for bytes not from :func:`_sealed`.

    There may be rows before it.
    """
    data = split(data)[1]
    end = data.find(b"\n", 0, _LONGEST_LINE_BYTES)
    words = data[: max(end, 0)].split(b" ")
    if len(words) != 5 or words[0] != _MAGIC:
        raise StateError("this is not the state of a kanalyze run")
    if words[1] not in _READABLE:
        raise StateError(
            f"the state was written by another version of kanalyze than {__version__}, in a format "
            "that this one does not read: run without it"
        )
    packed = data[end + 1 :]
    if words[4] != _digest(data[: end - 2 * _DIGEST_BYTES], packed):
        raise _damaged()
    size = int(words[3]) if words[3].isdigit() else MAX_BYTES + 1
    if size > MAX_BYTES:
        raise _damaged()
    decoder = zlib.decompressobj()
    try:
        plain = decoder.decompress(packed, size + 1)
    except zlib.error as error:
        raise _damaged() from error
    if len(plain) != size:
        raise _damaged()
    return plain


def _damaged() -> StateError:
    return StateError("the state is damaged: run without it")


class ResumableRun:
    """Rows of captures that continue earlier captures, or that later captures continue."""

    def __init__(
        self,
        context: RunContext,
        tables: Tables,
        saved_state: bytes | None,
        *,
        keeps_open: bool = False,
        first_id: int | None = None,
    ) -> None:
        """Set up a run; for the arguments see :meth:`.Analysis.resumable`."""
        self._context = context
        self._tables = tables
        self._loaded = saved_state
        self._keeps_open = keeps_open
        self._first_id = first_id
        self.saved_state = b""
        """State of the connections that are open at the end; set when all rows were yielded."""
        self.closing_quality = CaptureQuality()
        """The counts that closing them would add; set when all rows were yielded."""
        self.open_connections: list[ConnectionRow] = []
        """Their rows, with the values known so far; set when all rows were yielded."""
        self.closed: str | None = None
        """Why the connections of the loaded state were closed; None if they were continued."""

    def rows(self) -> Iterator[TableRows]:
        """Yield the rows that match the filter, once; without anomalies of the capture files.

        Raises:
            StateError: the state is not of an analysis with the same settings, or cannot be read,
                and it has no rows for closing its connections.
        """
        context, tables = self._context, self._tables
        run = OnePass(
            *(context.open(), context.settings, tables, context.names, context.quality),
            checks_crc=False,
        )
        lines = new_cluster_lines(context)
        selected = SelectedRows(context, tables, self._first_id, lines)
        if self._loaded is not None:
            try:
                load_state(self._loaded, run.stages, run.assembler, lines)
                run.stages.reset_counts()
            except StateError as error:
                yield from self._closed(self._loaded, error)
        for _, step_rows in run.steps(close_connections=not self._keeps_open):
            for rows in step_rows:
                yield selected.of(rows)
        if self._keeps_open:
            state = save_state(run.stages, run.assembler, lines)
            last = [selected.of(rows) for rows in run.close(self.closing_quality)]
            self.open_connections = [row for rows in last for row in rows.connections]
            self.saved_state = before_state(last, state)

    def _closed(self, data: bytes, error: StateError) -> list[TableRows]:
        """Return the rows of the connections of a state that cannot be read."""
        closing, _ = split(data)
        if closing is None:
            raise error
        try:
            rows = rows_of(closing)
        except ClosingRowsError:
            raise error from None
        self.closed = str(error).partition(": run without it")[0]
        return rows
