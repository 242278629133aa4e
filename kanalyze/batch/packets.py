"""The packets of a capture as a table: one row each, with their bytes.

In: a capture. Out: Arrow batches.

No Python object is made for a packet: the columns of a batch become Arrow's as they are, and the
bytes are copied out of the reader's buffer in one operation.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from array import array
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import pyarrow as pa

from kanalyze.capture.io.source import capture_name
from kanalyze.capture.reader import open_capture
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import BatchMaker
from kanalyze.export.schema import arrow_schema
from kanalyze.model.packet_arrays import PacketArrays
from kanalyze.spec.columns import Bytes, Int32, Int64, Nanoseconds, columns_of
from kanalyze.spec.rows.requests import Capture
from kanalyze.tables.columns.block import Ints, RowBlock, Words
from kanalyze.tables.columns.numpy_arrays import ints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.capture.io.stores import Stores
    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.columns import Column


class PacketRow(NamedTuple):
    """One captured packet."""

    capture: Capture
    packet: Annotated[Int64, "number in the capture, from 1"]
    time_ns: Annotated[Nanoseconds, "time of capture"]
    link_type: Annotated[Int32, "LINKTYPE_ value of the interface: 1 is Ethernet, 113 Linux cooked"]
    wire_bytes: Annotated[Bytes, "what the packet had on the wire"]
    captured_bytes: Annotated[Int32, "bytes of it that were captured", "B"]
    data: Annotated[bytes, "the bytes captured, from the link header on"]


PACKET_COLUMNS: "Final[tuple[Column, ...]]" = columns_of(PacketRow)
"""The columns of :class:`PacketRow`, in the order of its fields."""

_DATA: Final = "data"
_BATCH_INDEX: Final = "place"
"""For each row of a block, its index in the batch of packets."""


def packet_batches(
    path: str,
    *,
    columns: "Sequence[Column]" = PACKET_COLUMNS,
    choose: "Callable[[RowBlock], RowBlock] | None" = None,
    stores: "Stores | None" = None,
) -> "Iterator[pa.RecordBatch]":
    """Yield the packets of a capture, in its order.

    Args:
        path: as :func:`~kanalyze.capture.reader.open_capture` takes it.
        columns: the columns of the batches, some of :data:`PACKET_COLUMNS`, in this order.
        choose: takes the packets by column, without their bytes; returns the selected ones.
        stores: file systems connected to before.

    Raises:
        CaptureError: the file cannot be opened or read, or is no capture.
    """
    numbers = [column for column in columns if column.name != _DATA]
    maker = BatchMaker(numbers)
    schema = arrow_schema(columns)
    name = capture_name(path)
    with open_capture(path, stores=stores) as reader:
        for batch in reader.batches():
            block = _block(batch, name)
            if choose is not None:
                block = choose(block)
            if not len(block):
                continue
            by_name = dict(zip(maker.schema.names, maker.of_block(block).columns, strict=True))
            if len(numbers) < len(columns):
                by_name[_DATA] = _data(batch, block)
            arrays = [by_name[column.name] for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _block(batch: "PacketBatch", name: str) -> RowBlock:
    count = len(batch)
    return RowBlock(
        count,
        {
            "capture": Words(array("i", bytes(4 * count)), [name]),
            "packet": Ints(batch.number, None),
            "time_ns": Ints(batch.time_ns, None),
            "link_type": Ints(array("q", batch.link_type), None),
            "wire_bytes": Ints(batch.wire_bytes, None),
            "captured_bytes": Ints(batch.captured_bytes, None),
            _BATCH_INDEX: Ints(array("q", range(count)), None),
        },
    )


def _data(batch: "PacketBatch", block: RowBlock) -> Any:
    """Copy the bytes of a block's packets out of the batch's buffer.

    In Arrow the end of an item is the beginning of the next one. So the bytes between two packets
    are an item too, and every second item is a packet.
    """
    rows = ints_of(block.columns[_BATCH_INDEX]).values
    columns = PacketArrays.of(batch)
    ends = np.empty(2 * len(rows), np.int64)
    ends[::2] = columns.offset[rows]
    ends[1::2] = ends[::2] + columns.captured_bytes[rows]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(batch.buffer)]
    items = pa.Array.from_buffers(pa.large_binary(), 2 * len(rows) - 1, buffers)
    every_second = np.arange(0, 2 * len(rows), 2, dtype=np.int64)
    indices = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(every_second)])
    return items.take(indices).cast(pa.binary())
