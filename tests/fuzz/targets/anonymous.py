"""Damaged captures are made anonymous: the result is a capture of the same packets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kanalyze.anonymization.anonymize import Anonymization
from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from kanalyze.export.files import OutputFile
from tests.fuzz.invariant import holds
from tests.fuzz.targets.capture import RATIOS
from tests.fuzz.targets.common import CATALOG, decoders_made_before

_KEY = b"a key that is used for fuzzing .."


def make_anonymous(data: bytes) -> None:
    """Make a capture anonymous; its packets keep their times, lengths and link types.

    Compressed captures are left to the target that reads files: a few bytes make many packets.
    """
    if data[:2] in RATIOS:
        return
    with TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        before.write_bytes(data)
        made = Anonymization([before], _KEY, catalog=CATALOG)
        try:
            with decoders_made_before():
                done = made.run(partial(OutputFile, str(after), private=True))
        except CaptureError:
            return
        expected, found = _packets(before), _packets(after)
    holds(len(found) == done.packets, "packets written and counted differ")
    holds(found == expected, "packets with other times or lengths")


def _packets(capture: Path) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    with capture.open("rb") as file, open_capture(file, name="x") as reader:
        for batch in reader.batches():
            columns = batch.number, batch.time_ns, batch.captured_bytes, batch.wire_bytes
            found += zip(*columns, batch.link_type, strict=True)
    return found
