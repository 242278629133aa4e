"""A capture that is still being written, through a pipe: ``tcpdump -w - | kanalyze live -``.

In: a binary file. Out: :class:`kanalyze.model.PacketBatch`, as from an interface.

While the pipe is silent, the reader of captures waits in the middle of a header, a block or a
compressed piece. So it waits in a thread, which only reads while a batch is requested.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import threading
import time
from typing import TYPE_CHECKING, Final

from kanalyze.capture.io.source import FileSource, capture_name
from kanalyze.capture.reader import DEFAULT_BUFFER_BYTES, CaptureReader
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.common.int_columns import bounds
from kanalyze.errors import CaptureError, KanalyzeError
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.capture.io.source import BinaryFile
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch

DEFAULT_GATHER_S: Final = 0.1
_LOOK_EVERY_S: Final = 0.1
"""How often the thread checks whether it has to end."""
_SET_PIPE_SIZE: Final = 1031
_PIPE_BYTES: Final = 1 << 20
"""Largest size of a pipe that Linux allows without privileges; the default is a sixteenth."""


class PipeCapture(ClosedAtEnd):
    """A capture read as it comes; a context manager that stops reading.

    ``file`` is a pipe, or any readable file, preferably unbuffered; it stays open. A batch has the
    packets that came within ``gather_s`` seconds after its first byte, at most ``buffer_bytes``.
    """

    def __init__(
        self,
        file: BinaryFile,
        *,
        name: str | None = None,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        gather_s: float = DEFAULT_GATHER_S,
    ) -> None:
        self.name = name or capture_name(file)
        self._source = _GatheringSource(file, self.name, gather_s)
        self._buffer_bytes = buffer_bytes
        self._reader: CaptureReader | None = None
        self._turn = threading.Condition()
        self._is_batch_requested = False
        self._batch: PacketBatch | None = None
        self._error: KanalyzeError | None = None
        self._is_at_end = False
        self._thread = threading.Thread(target=self._run, name=f"read {self.name}", daemon=True)
        self._thread.start()

    @property
    def packets(self) -> int:
        """Packets handed out so far."""
        return self._reader.packets if self._reader is not None else 0

    @property
    def about(self) -> FileMetadata | None:
        """The metadata of the capture so far; None before it begins."""
        return self._reader.description if self._reader is not None else None

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machine dropped, where the capture says it (so far)."""
        return self._reader.dropped_packets if self._reader is not None else None

    @property
    def anomalies(self) -> list[Anomaly]:
        """What is wrong with the capture: at most a few, known at its end."""
        return list(self._reader.anomalies) if self._reader is not None else []

    @property
    def is_at_end(self) -> bool:
        """Whether nothing more comes: the writer has ended, or the data are corrupt."""
        return self._is_at_end

    @property
    def description(self) -> str:
        """What is read, for people."""
        return f"{self.name}: a capture as it is written"

    def read(self, timeout_s: float) -> PacketBatch | None:
        """Return the packets since the last call, or None if none came in ``timeout_s``.

        None at the end too (see :attr:`is_at_end`). The batch's buffer is valid until the next
        call. Raises :class:`CaptureError` when it is no capture, or cannot be read.
        """
        with self._turn:
            # A batch that came after an earlier call gave up is returned first: the thread reads
            # the next one into the same buffer.
            if not self._is_answered():
                self._is_batch_requested = True
                self._turn.notify_all()
                self._turn.wait_for(self._is_answered, timeout_s)
            batch, self._batch = self._batch, None
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return batch

    def close(self) -> None:
        """Stop reading."""
        with self._turn:
            self._source.is_stopped = True
            self._turn.notify_all()
        # The thread may hang in a file that cannot be polled; it is a daemon, so do not wait long.
        self._thread.join(4 * _LOOK_EVERY_S)

    def _run(self) -> None:
        """Read one batch per request; this runs in the thread."""
        try:
            self._wait_for_request()
            self._reader = CaptureReader(self._source, self._buffer_bytes)
            for batch in self._reader.batches():
                if bounds(batch.time_ns)[0] == NO_TIME:
                    raise CaptureError(
                        f"{self.name}: has packets without a time, as in pcapng's Simple Packet "
                        "Blocks, and shows nothing of now: read it with report or requests"
                    )
                if not self._answer(batch):
                    break
        except KanalyzeError as error:
            self._error = error
        finally:
            with self._turn:
                self._is_at_end = True
                self._turn.notify_all()

    def _answer(self, batch: PacketBatch) -> bool:
        """Pass a batch on and wait for the next request; false if there is none."""
        with self._turn:
            self._batch = batch
            self._is_batch_requested = False
            self._turn.notify_all()
        return self._wait_for_request()

    def _wait_for_request(self) -> bool:
        with self._turn:
            self._turn.wait_for(lambda: self._is_batch_requested or self._source.is_stopped)
            return not self._source.is_stopped

    def _is_answered(self) -> bool:
        return self._batch is not None or self._is_at_end


class _GatheringSource(FileSource):
    """A file whose reads collect bytes for ``gather_s`` seconds, not only the first piece."""

    def __init__(self, file: BinaryFile, name: str, gather_s: float) -> None:
        super().__init__(file, name, owned=False)
        self.is_stopped = False
        """Set by the reader: stop waiting."""
        self._gather_s = gather_s
        self._poll = _poll_of(file)

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``: see :class:`ByteSource`."""
        while not self._is_readable(_LOOK_EVERY_S):
            if self.is_stopped:
                return 0
        count = super().readinto(target)
        until_s = time.monotonic() + self._gather_s
        while 0 < count < len(target) and not self.is_stopped:
            remaining_s = until_s - time.monotonic()
            if remaining_s <= 0 or not self._is_readable(remaining_s):
                break
            more = super().readinto(target[count:])
            if not more:
                break
            count += more
        return count

    def _is_readable(self, timeout_s: float) -> bool:
        return self._poll is None or bool(self._poll.poll(timeout_s * 1000))


def _poll_of(file: BinaryFile) -> select.poll | None:
    """Return an object that waits for the file; None if it has no file descriptor."""
    try:
        descriptor = file.fileno()
    except (OSError, AttributeError, ValueError):
        return None
    with contextlib.suppress(OSError):  # no pipe, or no Linux
        fcntl.fcntl(descriptor, _SET_PIPE_SIZE, _PIPE_BYTES)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll
