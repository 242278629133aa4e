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
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar

from kanalyze.anonymization.check import OutputCheck
from kanalyze.anonymization.messages import MessageAnonymizer
from kanalyze.anonymization.packets import PacketAnonymizer
from kanalyze.anonymization.stand_ins import StandIns, new_key
from kanalyze.anonymization.streams import Collection, FoundMessages, FoundStreams
from kanalyze.capture.formats.pcapng_encoder import (
    PacketBlocks,
    PacketComments,
    interface_description,
    section_header,
)
from kanalyze.common.forked import Forked, usable_processes
from kanalyze.common.garbage_collection import no_collection
from kanalyze.common.int_columns import total
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.model.packets import PacketBatch
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime.memory import DEFAULT_MEMORY_BYTES, MemoryBounds
from kanalyze.runtime.settings import AnalysisInputs, broker_side
from kanalyze.runtime.stages import Stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.common.paths import FileIdentity
    from kanalyze.export.files import OutputFile
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.runtime.settings import CaptureInput

_T = TypeVar("_T")
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
        self._read_bytes = [0, 0]
        """Bytes that each pass has read so far."""

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all: each capture is read twice."""
        all_bytes = self._inputs.progress[1]
        return sum(self._read_bytes), None if all_bytes is None else 2 * all_bytes

    def run(self, output: Callable[[], OutputFile]) -> Anonymized:
        """Write the capture.

        Args:
            output: opens the file.

        Raises:
            UsageError: a capture can be read only once, such as standard input.
            CaptureError: a capture is missing or cannot be read.
            OSError: the file, or the temporary one beside it, cannot be written; or the system
                cannot start the processes.
        """
        captures = self._inputs.open()
        if not captures.can_be_read_again:
            raise UsageError("anonymize reads captures twice: save what comes through a pipe first")
        jobs = usable_processes(self._jobs, captures.progress[1])
        with output() as file, ExitStack() as stack:
            folder = None if file.partial is None else file.partial.parent
            spilled = [stack.enter_context(TemporaryFile(dir=folder)) for _ in range(jobs)]
            found = self._first_pass(spilled)
            streams = FoundStreams(found, spilled, strips_records=self._strips_records)
            stack.enter_context(closing(streams))
            packets = self._second_pass(streams, jobs, file.file)
        return Anonymized(
            packets=packets,
            connections=sum(each.connections for each in found),
            messages=sum(each.messages for each in found),
            unread_messages=sum(each.unread_messages for each in found),
            unread_batches=sum(each.unread_batches for each in found),
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

    # -- the first pass: messages -----------------------------------------------------------------

    def _first_pass(self, spilled: Sequence[BinaryIO]) -> list[FoundMessages]:
        """Anonymize the messages of each shard of the connections, as many as there are files."""
        count = len(spilled)
        produce = [
            partial(self._messages_of, Shard(index, count), file)
            for index, file in enumerate(spilled)
        ]
        with ExitStack() as stack:
            return [found for shard in _running(produce, stack) for found in self._last_of(shard)]

    def _last_of(self, shard: Iterator[int | FoundMessages]) -> Iterator[FoundMessages]:
        for each in shard:
            if isinstance(each, int):
                self._read_bytes[0] = max(self._read_bytes[0], each)
            else:
                yield each

    def _messages_of(self, shard: Shard, spilled: BinaryIO) -> Iterator[int | FoundMessages]:
        """Anonymize the messages of a shard; yield the bytes read so far, then what was found."""
        messages = MessageAnonymizer(self._catalog, self._stand_ins)
        collection = Collection(
            messages, self._stand_ins, spilled, strips_records=self._strips_records
        )
        wire_bytes = 0
        with self._opened() as captures:
            for batch, events in self._stages(shard).run(captures):
                with no_collection():
                    collection.add(events)
                if isinstance(batch, PacketBatch):
                    wire_bytes += total(batch.wire_bytes)
                yield captures.progress[0]
        yield collection.found(wire_bytes)

    def _opened(self) -> MergedCaptures:
        captures = self._inputs.open_again()
        assert captures is not None
        captures.description.takes_secrets = False  # what is encrypted stays so, and is blanked
        return captures

    def _stages(self, shard: Shard) -> Stages:
        reader = MessageReader(self._catalog, Decoders(self._catalog), lambda *_: _NOTHING)
        return Stages(
            reader,
            self._catalog,
            is_broker=self._is_broker,
            keep=lambda _: True,
            memory=self._memory.of_shard(shard.count),
            shard=shard,
        )

    # -- the second pass: packets -----------------------------------------------------------------

    def _second_pass(self, streams: FoundStreams, jobs: int, file: BinaryIO) -> int:
        """Write the anonymized packets; return their number."""
        if streams.may_wrap:
            jobs = 1  # where a packet belongs in a stream then depends on those before
        file.write(section_header())
        written = 0
        produce = [partial(self._blocks, streams, turn, jobs) for turn in range(jobs)]
        with ExitStack() as stack:
            for blocks in _in_turn(_running(produce, stack)):
                file.write(blocks.data)
                written += blocks.packets
                self._read_bytes[1] = blocks.read_bytes
        return written

    def _blocks(self, streams: FoundStreams, turn: int, turns: int) -> Iterator[_Blocks]:
        """Yield the blocks of every batch of packets whose turn it is."""
        anonymizer = PacketAnonymizer(self._stand_ins, streams, cuts=self._strips_records)
        interfaces: dict[int, int] = {}
        with self._opened() as captures:
            for number, batch in enumerate(captures.batches()):
                is_own = number % turns == turn
                packets = anonymizer.batch(batch) if is_own else batch
                blocks = PacketBlocks(packets, PacketComments.of({}))
                descriptions, interfaces = blocks.interfaces(interfaces, interface_description)
                if is_own:
                    data = descriptions + blocks.encoded(interfaces)
                    yield _Blocks(len(packets), data, captures.progress[0])


class _Blocks(NamedTuple):
    """The blocks of a batch of packets."""

    packets: int
    data: bytes
    read_bytes: int
    """Bytes of the captures up to there."""


def _running(produce: Sequence[Callable[[], Iterator[_T]]], stack: ExitStack) -> list[Iterator[_T]]:
    """Return iterators: that of one function, or those of several, each in its own process."""
    if len(produce) == 1:
        return [produce[0]()]
    forked = []
    for each in produce:
        forked.append(Forked(each))
        stack.callback(forked[-1].close)
    return [*forked]


def _in_turn(iterators: Sequence[Iterator[_T]]) -> Iterator[_T]:
    """Yield one item of each iterator, over and over, until it is the turn of one that has none."""
    for iterator in cycle(iterators):
        try:
            yield next(iterator)
        except StopIteration:
            return
