"""The targets by name: their functions, seeds, shapes of inputs, and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.fuzz import seeds, shapes
from tests.fuzz.seed_captures import captures
from tests.fuzz.targets import anonymous, capture, messages, net, records, streams, tls, whole

if TYPE_CHECKING:
    from collections.abc import Callable

_KIB = 1024


class Target(NamedTuple):
    """One stage, and the inputs that it gets."""

    run: Callable[[bytes], None]
    """Reads an input and asserts the invariant."""
    seeds: Callable[[], list[bytes]]
    shape: shapes.Shape
    most_bytes: int
    weight: int
    """Its share of a run over all targets."""


def _bodies() -> list[bytes]:
    return [messages.body_input(body) for body in seeds.bodies()]


def _large_bodies() -> list[bytes]:
    found = [messages.body_input(body) for body in seeds.large_bodies()]
    return found + _bodies()[::20]


def _embedded() -> list[bytes]:
    strings = b"\x00\x02\x00\x01a\x00\x06orders"
    owned = b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
    subscription = b"\x00\x03\x00\x00" + strings + b"\xff\xff\xff\xff" + owned
    return [
        subscription + b"\x00\x00\x00\x07\x00\x04rack",
        b"\x00\x00" + owned + b"\x00\x00\x00\x04data",
        b"\x00\x00\x00\x01",
    ]


TARGETS = {
    "capture": Target(capture.read_capture, captures, shapes.CAPTURE, 16 * _KIB, 6),
    "net": Target(net.reassemble, captures, shapes.CAPTURE, 16 * _KIB, 3),
    "framing": Target(streams.cut_frames, seeds.connections, shapes.TURNS, 8 * _KIB, 10),
    "connection": Target(streams.follow_connection, seeds.connections, shapes.TURNS, 8 * _KIB, 5),
    "tls": Target(tls.read_tls, tls.tls_turns, shapes.TURNS, 8 * _KIB, 10),
    "tlswatch": Target(tls.watch_tls, tls.tls_turns, shapes.TURNS, 8 * _KIB, 5),
    "keylog": Target(tls.read_key_log, tls.key_logs, shapes.BYTES, 4 * _KIB, 5),
    "headers": Target(messages.parse_headers, seeds.request_frames, shapes.BYTES, 2 * _KIB, 25),
    "decode": Target(messages.decode_body, _bodies, shapes.BYTES, 4 * _KIB, 20),
    "pieces": Target(messages.decode_in_pieces, _bodies, shapes.BYTES, 4 * _KIB, 10),
    "skim": Target(messages.skim_body, _large_bodies, shapes.BYTES, 48 * _KIB, 3),
    "trace": Target(messages.trace_body, _bodies, shapes.BYTES, 2 * _KIB, 5),
    "embedded": Target(messages.read_embedded, _embedded, shapes.BYTES, 2 * _KIB, 15),
    "sasl": Target(messages.read_token, seeds.tokens, shapes.BYTES, 2 * _KIB, 10),
    "records": Target(records.read_records, seeds.record_sets, shapes.BATCHES, 8 * _KIB, 8),
    "compression": Target(records.expand, seeds.compressed, shapes.BYTES, 8 * _KIB, 6),
    "messages07": Target(records.read_messages07, seeds.message_sets07, shapes.FRAMES, 4 * _KIB, 6),
    "frames07": Target(records.read_frames07, seeds.frames07, shapes.FRAMES, 4 * _KIB, 8),
    "rows": Target(whole.make_rows, captures, shapes.CAPTURE, 16 * _KIB, 3),
    "shown": Target(whole.show_messages, captures, shapes.CAPTURE, 16 * _KIB, 1),
    "anonymous": Target(anonymous.make_anonymous, captures, shapes.CAPTURE, 16 * _KIB, 1),
}
