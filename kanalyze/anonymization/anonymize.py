"""Anonymizes captures in two passes: first the messages, then the packets. Begin reading here.

In: captures, a key. Out: a pcapng file that does not show whose traffic it was.

    captures -> exchanges -> pieces of streams;  captures -> PacketBatch -> pcapng

What was written is compared with the captures (:mod:`.check`).

Names and addresses become stand-ins of the same length (:mod:`.stand_ins`), records and secrets are
blanked (:mod:`.messages`, :mod:`.rules`), headers of packets are rewritten (:mod:`.packets`).
Bytes that no parser read are blank: TLS, messages of Kafka 0.7, other protocols, IP fragments,
bytes between messages. A retransmitted byte is replaced in the same way as the first copy, because
replacements are found by stream offset. Interface names, comments, host names and secrets that a
capture has beside its packets are left out. A TLS alert in the clear stays: it says that a client
came without TLS, or why a handshake failed.
"""

from __future__ import annotations

import hashlib
from array import array
from contextlib import closing
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final

from kanalyze.anonymization.check import EncryptedCaptures, OutputCheck
from kanalyze.anonymization.messages import MessageAnonymizer
from kanalyze.anonymization.packets import PacketAnonymizer
from kanalyze.anonymization.stand_ins import StandIns, new_key
from kanalyze.anonymization.streams import Collection, StreamPieces, StreamPlaces, StreamRanges
from kanalyze.capture.formats.pcapng_encoder import (
    PacketBlocks,
    interface_description,
    section_header,
)
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.model.packets import PacketBatch
from kanalyze.runtime.settings import AnalysisInputs, broker_side
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES, MemoryBounds, Stages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.common.paths import FileIdentity
    from kanalyze.export.files import OutputFile
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.settings import CaptureInput

__all__ = ["Anonymization", "Anonymized", "key_of"]

_NOTHING: Final = Projection.of()
_SALT: Final = b"kanalyze anonymize"
_COST: Final = 1 << 14
_KEY_BYTES: Final = 32


class Anonymized(NamedTuple):
    """What was written."""

    packets: int
    connections: int
    """Kafka connections."""
    messages: int
    """Requests and responses."""
    unread_messages: int
    """Messages whose body could not be read; the whole body is blank."""
    unread_batches: int
    """Record batches that are blank as a whole, in messages that could be read."""
    differences: tuple[str, ...] | None = None
    """What differs from the captures besides names, a line for each table; None if what was written
    was not compared with them, as what goes to a pipe cannot be."""


def key_of(passphrase: bytes | None) -> bytes:
    """Derive the key from a passphrase; return a random key for None.

    The derivation is slow on purpose, so that short passphrases cannot be guessed quickly. Raises
    UsageError for a passphrase that is empty or blank.
    """
    if passphrase is None:
        return new_key()
    if not passphrase.strip():
        raise UsageError("the key is empty")
    return hashlib.scrypt(passphrase, salt=_SALT, n=_COST, r=8, p=1, dklen=_KEY_BYTES)


class Anonymization:
    """Makes captures anonymous: :meth:`run`, once."""

    def __init__(
        self,
        captures: Sequence[CaptureInput],
        key: bytes,
        *,
        strips_records: bool = False,
        ports: Sequence[int] = (),
        catalog: Catalog | None = None,
        max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
        leave_out: Callable[[Anomaly], object] | None = None,
        outputs: AbstractSet[FileIdentity] = frozenset(),
        jobs: int = 1,
    ) -> None:
        """Check the settings; nothing is opened yet.

        Args:
            captures: the inputs; several become one capture, in the order of their times.
            key: 32 bytes; the same key gives the same stand-ins.
            strips_records: whether to cut off records at the end of packets, as a snap length does.
            ports: this and the following are as in :class:`~kanalyze.runtime.pipeline.Analysis`.
            catalog: the known APIs; None for the built-in ones.
            max_memory_bytes: memory in bytes for connections.
            leave_out: called with the anomaly of each file that is left out.
            outputs: files that are written meanwhile; folders and globs leave them out.
            jobs: how many processes may work on large captures; what is written is the same.

        Raises:
            UsageError: a port or the memory is invalid.
        """
        self._inputs = AnalysisInputs(captures, None, leave_out, outputs)
        self._catalog = Catalog() if catalog is None else catalog
        self._stand_ins = StandIns(key)
        self._strips_records = strips_records
        self._ports = ports
        self._is_broker = broker_side(ports, ())
        self._memory_bytes = max_memory_bytes
        self._memory = MemoryBounds.of(max_memory_bytes)
        self._jobs = jobs
        self._second_pass: MergedCaptures | None = None

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all: each capture is read twice."""
        done, total = self._inputs.progress
        second_pass = self._second_pass  # read once: another thread, a progress bar, calls this
        if second_pass is not None:
            done += second_pass.progress[0]
        return done, None if total is None else 2 * total

    def run(self, output: Callable[[], OutputFile]) -> Anonymized:
        """Write the capture.

        Args:
            output: opens the file.

        Raises:
            UsageError: a capture can be read only once, such as standard input.
            CaptureError: a capture is missing or cannot be read.
            OSError: the file, or the temporary one beside it, cannot be written.
        """
        captures = self._inputs.open()
        self._second_pass = self._inputs.open_again()
        if self._second_pass is None:
            raise UsageError("anonymize reads captures twice: save what comes through a pipe first")
        with self._second_pass, output() as file:
            folder = None if file.partial is None else file.partial.parent
            with TemporaryFile(dir=folder) as spilled, closing(StreamPieces(spilled)) as pieces:
                places = StreamPlaces()
                records = StreamRanges()
                messages = MessageAnonymizer(self._catalog, self._stand_ins)
                collection = Collection(messages, self._stand_ins, pieces, places, records)
                for _, events in self._stages().run(EncryptedCaptures(captures)):
                    collection.add(events)
                for index in (pieces, places, records):
                    index.sort()
                payloads = _Payloads(pieces, places, records if self._strips_records else None)
                packets = _write(self._second_pass, payloads, self._stand_ins, file.file)
        return Anonymized(
            packets=packets,
            connections=collection.connections,
            messages=collection.message_count,
            unread_messages=collection.unread_messages,
            unread_batches=messages.blanked_batches,
        )

    def check(self, written: str) -> OutputCheck:
        """Return the comparison of a file that :meth:`run` wrote with the captures."""
        return OutputCheck(
            self._inputs.captures,
            written,
            strips_records=self._strips_records,
            jobs=self._jobs,
            ports=self._ports,
            catalog=self._catalog,
            max_memory_bytes=self._memory_bytes,
        )

    def _stages(self) -> Stages:
        reader = MessageReader(self._catalog, Decoders(self._catalog), lambda *_: _NOTHING)
        return Stages(
            reader,
            self._catalog,
            is_broker=self._is_broker,
            keep=lambda _: True,
            memory=self._memory,
        )


class _Payloads:
    """Returns the anonymized payload of packets."""

    def __init__(
        self, pieces: StreamPieces, places: StreamPlaces, records: StreamRanges | None
    ) -> None:
        self._pieces = pieces
        self._places = places
        self._records = records
        self.packet = 0
        """Number of the current packet."""
        self.kept_bytes: int | None = None
        """Bytes of the current packet's payload to keep; None to keep all."""

    def begin(self, packet: int) -> None:
        """Make the packet with this number the current one."""
        self.packet, self.kept_bytes = packet, None

    def payload(
        self, source: bytes, destination: bytes, ports: bytes, sequence: int, length: int
    ) -> bytes | None:
        """See :class:`~kanalyze.anonymization.rewriting.Payloads`."""
        place = self._places.find(source, destination, ports, sequence, self.packet)
        if place is None:
            return None
        if self._records is not None:
            self.kept_bytes = self._records.without_end(*place, length)
        return self._pieces.read(*place, length)


def _write(
    captures: MergedCaptures, payloads: _Payloads, stand_ins: StandIns, file: BinaryIO
) -> int:
    """Write the anonymized packets of captures; return their number."""
    anonymizer = PacketAnonymizer(stand_ins, payloads)
    interfaces: dict[int, int] = {}
    file.write(section_header())
    written = 0
    for batch in captures.batches():
        packets = _anonymous_batch(batch, anonymizer, payloads)
        blocks = PacketBlocks(packets, {})
        descriptions, interfaces = blocks.interfaces(interfaces, interface_description)
        file.write(descriptions)
        file.write(blocks.encoded(interfaces))
        written += len(packets)
    return written


def _anonymous_batch(
    batch: PacketBatch, anonymizer: PacketAnonymizer, payloads: _Payloads
) -> PacketBatch:
    """Return the packets of a batch without names, addresses and contents."""
    packets: list[bytearray] = []
    offsets, captured_bytes = array("q"), array("q")
    offset = 0
    anonymizer.begin(batch)
    for row, number in enumerate(batch.number):
        payloads.begin(number)
        packet = anonymizer.packet(row)
        if payloads.kept_bytes is not None:
            packet = packet[: anonymizer.payload_at + payloads.kept_bytes]
        packets.append(packet)
        offsets.append(offset)
        captured_bytes.append(len(packet))
        offset += len(packet)
    return PacketBatch(
        memoryview(b"".join(packets)),
        batch.number,
        batch.time_ns,
        offsets,
        captured_bytes,
        batch.wire_bytes,
        batch.link_type,
    )
