"""Extracts packets in two passes: first find the requests, then their packets. Begin reading here.

In: an analysis without a filter, and filters. Out: a pcapng file.

    captures -> rows -> PacketSelection;  captures -> PacketBatch -> pcapng

Packets are copied unchanged: bytes, times, lengths, order and comments. Only their numbers differ.
If the TLS of a connection was decrypted, all its packets are copied up to the last packet of the
last request: a TLS record cannot be decrypted without the records before it.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from contextlib import nullcontext
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from kanalyze.capture.formats.pcapng_encoder import (
    EncodedComments,
    PacketBlocks,
    PacketComments,
    decryption_secrets,
    interface_description,
    section_header,
)
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError
from kanalyze.extraction.selection import PacketSelection, Span, Spans, ends_of
from kanalyze.model.packet_arrays import to_column
from kanalyze.net.headers import EndpointFilter, HeaderReader
from kanalyze.net.layer_stats import LayerStats
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Words
from kanalyze.tables.columns.numpy_arrays import ints_of
from kanalyze.tls.keylog import TLS_KEY_LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.export.files import OutputFile
    from kanalyze.extraction.selection import PacketSearch
    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tls.keylog import KeyLog

_LOGIN_APIS: Final = (17, 18, 36)
"""SaslHandshake, ApiVersions and SaslAuthenticate, which a connection begins with."""
_NO_PORT: Final = 0
_CONNECTION_COLUMNS: Final = [
    column for column in COLUMNS if column.name in {"connection", "connection_number"}
]


class Selected(NamedTuple):
    """The filters: a row is selected if it matches any of them."""

    requests: Sequence[RowFilter]
    connections: Sequence[RowFilter] = ()
    """Filters of connections to copy as a whole, of any protocol."""


class Extent(NamedTuple):
    """Which packets to copy besides those of the selected requests."""

    around_ns: int = 0
    """Packets of the same connection up to this time before and after each request; 0 or more."""
    with_handshake: bool = False
    """The beginning of the same connection: TCP and TLS handshake, ApiVersions and SASL."""
    whole_connections: bool = False
    """All packets of the same connection."""


class Extracted(NamedTuple):
    """Numbers of what was selected and written."""

    requests: int
    """Requests that were selected."""
    connections: int
    """Connections that were selected, or that have selected requests."""
    packets: int
    """Packets that were written."""
    all_packets: int
    """Packets in the captures."""
    uncommented_requests: int
    """Requests whose packets got no comment, because there were too many requests."""
    decrypted_connections: int
    """Connections whose TLS was decrypted for the analysis; in the file they are encrypted."""
    untimed: int = 0
    """Requests and connections that match, but have no times, by which packets are found."""


def extract_packets(
    analysis: Analysis,
    selected: Selected,
    output: Callable[[], OutputFile],
    extent: Extent,
    key_log: KeyLog | None = None,
    *,
    watched: Callable[[MergedCaptures], AbstractContextManager[None]] | None = None,
) -> Extracted:
    """Write the packets of the requests and connections that match.

    Args:
        analysis: an analysis without a filter; its captures are read twice.
        selected: the filters.
        output: opens the file; it is not called if nothing matches.
        extent: which other packets to copy.
        key_log: if given, the secrets of the TLS sessions in the file are written into it. They
            come from this log and from the captures. It must not be the log of the analysis.
        watched: returns a context manager that is entered while the captures are read again.

    Raises:
        UsageError: a capture can be read only once, such as standard input.
        CaptureError: a capture cannot be read; or nothing that matches has a time.
        OSError: the file cannot be written.
    """
    table_rows = analysis.table_rows(anomalies=False)
    captures = analysis.captures_again()
    if captures is None:
        analysis.close()
        raise UsageError("extract reads captures twice: save what comes through a pipe to a file")
    chosen = _Chosen(_on_day(selected, analysis), extent)
    for rows in table_rows:
        for block in rows.requests:
            chosen.add_requests(block)
        for connection in rows.connections:
            chosen.add_connection(connection)
    if chosen.untimed and not chosen.selection:
        raise CaptureError(
            f"{chosen.untimed:,} that match have no times, by which extract finds their packets: "
            "use requests --wireshark, which numbers them"
        )
    packets = 0
    if chosen.selection:
        watch = nullcontext() if watched is None else watched(captures)
        with captures, watch, output() as file:
            if key_log is None:
                packets = _write(captures, chosen.selection, file.file)
            else:
                packets = _write_with_secrets(captures, chosen.selection, file, key_log)
    return Extracted(
        requests=chosen.selection.requests,
        connections=chosen.connections,
        packets=packets,
        all_packets=analysis.quality.packets,
        uncommented_requests=chosen.selection.uncommented_requests,
        decrypted_connections=chosen.decrypted_connections,
        untimed=chosen.untimed,
    )


class _Chosen:
    """Collects the spans of packets to copy from rows."""

    def __init__(self, selected: Selected, extent: Extent) -> None:
        self._selected = selected
        self._extent = extent
        self.selection = PacketSelection()
        """The packets selected so far."""
        self.untimed = 0
        """Requests and connections that match and have no times."""
        self.decrypted_connections = 0
        """Number of connections in ``connections`` whose TLS was decrypted."""
        self._last_ns: dict[tuple[str, int], int] = {}
        """The end of a selected connection, or of its last selected request, by connection."""
        self._logins: defaultdict[tuple[str, int], list[Span]] = defaultdict(list)
        """The spans of :data:`_LOGIN_APIS` requests, by open connection."""

    @property
    def connections(self) -> int:
        """Number of connections that were selected, or that have selected requests."""
        return len(self._last_ns)

    def add_requests(self, block: RowBlock) -> None:
        """Select the matching requests of a block; note its login requests."""
        if self._extent.with_handshake:
            self._note_logins(block)
        filters = self._selected.requests
        numbers: Sequence[int] = range(len(block))
        if not any(test.passes_all for test in filters):
            numbers = sorted({number for test in filters for number in test.numbers(block)})
        selected, spans = _timed(block if len(numbers) == len(block) else block.take(numbers))
        self.untimed += len(numbers) - len(selected)
        if len(selected):
            spans = spans.widened(self._extent.around_ns)
            self.selection.add_requests(selected, spans)
            for key, until_ns in _latest(selected, spans.until_ns):
                self._last_ns[key] = max(until_ns, self._last_ns.get(key, 0))

    def _note_logins(self, block: RowBlock) -> None:
        keys = ints_of(block.columns["api_key"])
        is_login = np.isin(keys.values, _LOGIN_APIS)
        if keys.valid is not None:
            is_login &= keys.valid
        logins, spans = _timed(block.take(np.flatnonzero(is_login).tolist()))
        times = zip(spans.from_ns.tolist(), spans.until_ns.tolist(), strict=True)
        for key, span in zip(_connections_of(logins), map(Span._make, times), strict=True):
            self._logins[key].append(span)

    def add_connection(self, row: ConnectionRow) -> None:
        """Select packets of a closed connection, as the filters and the extent say."""
        key = row.connection, row.connection_number
        logins = self._logins.pop(key, [])
        is_selected = any(test.matches_connection(row) for test in self._selected.connections)
        if row.start_ns is None or row.end_ns is None:
            self.untimed += is_selected
            return
        if is_selected:
            self._last_ns[key] = row.end_ns
        elif key not in self._last_ns:
            return
        ends = ends_of(row)
        if row.tls_decrypted:
            self.decrypted_connections += 1
            self.selection.add_span(*ends, Span(row.start_ns, self._last_ns[key]))
        if is_selected or self._extent.whole_connections:
            self.selection.add_span(*ends, Span(row.start_ns, row.end_ns))
            return
        if not self._extent.with_handshake:
            return
        for span in logins:
            self.selection.add_span(*ends, span)
        if row.opened_by is not None:
            acknowledged = row.start_ns + (row.handshake_rtt_ns or 0)
            first = min((span.from_ns for span in logins), default=acknowledged)
            self.selection.add_span(*ends, Span(row.start_ns, first))


def _timed(block: RowBlock) -> tuple[RowBlock, Spans]:
    """Return the requests of a block that have a time, and the span of each."""
    spans = Spans.of(block)
    if spans.is_timed.all():
        return block, spans
    rows = np.flatnonzero(spans.is_timed)
    return block.take(rows.tolist()), spans.only(rows)


def _connections_of(block: RowBlock) -> Iterator[tuple[str, int]]:
    """Yield the connection of each row, and its number among those of its ends."""
    return zip(*block.values(_CONNECTION_COLUMNS), strict=True)


def _latest(block: RowBlock, until_ns: NDArray[np.int64]) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield the connections of a block, and the latest time of each connection's rows."""
    texts, numbers = (block.columns[column.name] for column in _CONNECTION_COLUMNS)
    assert isinstance(texts, Words)
    order = np.lexsort((until_ns, ints_of(numbers).values, np.asarray(texts.codes)))
    ordered = block.only(["connection", "connection_number"]).take(order.tolist())
    yield from dict(zip(_connections_of(ordered), until_ns[order].tolist(), strict=True)).items()


def _on_day(selected: Selected, analysis: Analysis) -> Selected:
    """Return the filters with times of day replaced by times on the day of the first packet."""
    if not any(test.needs_day for filters in selected for test in filters):
        return selected
    first_ns = analysis.first_time_ns or 0  # without a time: any day
    return Selected(
        *([analysis.placed(test, first_ns) for test in filters] for filters in selected)
    )


def _write(captures: MergedCaptures, selection: PacketSelection, file: BinaryIO) -> int:
    """Write the selected packets of captures; return their number."""
    reader = HeaderReader(LayerStats())
    search = selection.search()
    comments = EncodedComments(selection.comments)
    own_comments = _OwnComments(captures)
    writer = _PacketWriter(file, captures.description)
    for batch in captures.batches():
        found = search.find(reader.read(batch), len(batch.buffer))
        rows = np.searchsorted(np.asarray(batch.number), found.numbers)
        if len(found.fragmented):
            rows = np.union1d(rows, _fragments(batch, search, found.fragmented))
        if len(rows):
            packets = batch.select(to_column(rows))
            commented = np.searchsorted(np.asarray(packets.number), found.commented)
            of_requests = comments.on(commented, found.comments)
            writer.write(packets, own_comments.on(packets).followed_by(of_requests))
    return writer.packets


def _write_with_secrets(
    captures: MergedCaptures, selection: PacketSelection, output: OutputFile, key_log: KeyLog
) -> int:
    """Write the TLS secrets of the selected packets, then the packets; return their number."""
    folder = None if output.partial is None else output.partial.parent
    with TemporaryFile(dir=folder) as packets_file:
        packets = _write(captures, selection, packets_file)
        for secrets in captures.description.decryption_secrets:
            if secrets.kind == TLS_KEY_LOG:
                key_log.feed(secrets.data)
                key_log.end()
        _copy_with_secrets(packets_file, output.file, key_log)
    return packets


def _copy_with_secrets(packets: BinaryIO, target: BinaryIO, key_log: KeyLog) -> None:
    """Copy a capture that kanalyze wrote, with the secrets of the sessions in it.

    Args:
        packets: the capture; it is read from its beginning, twice.
        target: where to write.
        key_log: secrets of any sessions; it notes which of them are used.

    Raises:
        OSError: a file cannot be read or written.
    """
    packets.seek(0)
    for _ in Analysis([packets], keylog=key_log).batches():
        pass
    lines = b"".join(key_log.used_lines(set()))
    head = section_header()
    packets.seek(len(head))
    target.write(head)
    if lines:
        target.write(decryption_secrets(TLS_KEY_LOG, lines))
    shutil.copyfileobj(packets, target)


def _fragments(
    batch: PacketBatch, search: PacketSearch, connections: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the indices of IP fragments, of any connection, within the spans of some connections.

    Only the first fragment of a datagram has ports.
    """
    rows = np.asarray(EndpointFilter([_NO_PORT], []).selected(batch))
    fragment_rows: NDArray[np.int64] = rows[
        search.is_within(connections, np.asarray(batch.time_ns)[rows])
    ]
    return fragment_rows


class _OwnComments:
    """The comments that packets had in their captures."""

    def __init__(self, captures: MergedCaptures) -> None:
        self._captures = captures
        self._texts: defaultdict[tuple[str, int | None], list[str]] = defaultdict(list)
        """Comments by capture and number of the packet in it."""
        self._comments_read = 0
        """Number of comments of the captures that are in ``_texts`` if they are on packets."""

    def on(self, packets: PacketBatch) -> PacketComments:
        """Return the comments that packets had."""
        own_comments = self._captures.description.comments
        for comment in own_comments[self._comments_read :]:
            if comment.about == "packet":
                self._texts[comment.capture, comment.number].append(comment.text)
        self._comments_read = len(own_comments)
        if not self._texts:
            return PacketComments.of({})
        places = map(self._captures.locate, packets.number)
        texts = {row: self._texts.get(place, ()) for row, place in enumerate(places)}
        return PacketComments.of({row: own for row, own in texts.items() if own})


class _PacketWriter:
    """Writes packets to one pcapng file."""

    def __init__(self, file: BinaryIO, metadata: FileMetadata) -> None:
        """Write the section header; ``metadata`` describes the interfaces of the captures."""
        self.packets = 0
        """Number of packets written so far."""
        self._file = file
        self._source_interfaces = metadata.interfaces
        self._interfaces: dict[int, int] = {}
        file.write(section_header())

    def write(self, packets: PacketBatch, comments: PacketComments) -> None:
        """Write packets in their order."""
        blocks = PacketBlocks(packets, comments)
        descriptions, self._interfaces = blocks.interfaces(self._interfaces, self._description)
        self._file.write(descriptions)
        self._file.write(blocks.encoded(self._interfaces))
        self.packets += len(packets)

    def _description(self, link_type: int) -> bytes:
        """Return an interface block for a link type.

        It has a name and a filter if all interfaces of the captures with this type have the same.
        """
        names = {
            (interface.name, interface.filter)
            for interface in self._source_interfaces
            if interface.link_type == link_type
        }
        name, packet_filter = names.pop() if len(names) == 1 else (None, None)
        return interface_description(link_type, name=name or "", packet_filter=packet_filter or "")
