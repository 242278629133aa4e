"""Taking the recording machine's name out of a pcapng file."""

import struct
from collections.abc import Iterator

SECTION, INTERFACE = 0x0A0D0D0A, 1
# Where the options begin in a block, and which of them describe the machine.
FIXED = {SECTION: 24, INTERFACE: 16}
MACHINE = {SECTION: {2, 3}, INTERFACE: {3, 12, 15}}


def without_machine(content: bytes) -> bytes:
    """The same capture without the options that tell of hardware and operating system.

    dumpcap writes little-endian files on every machine that this is run on.
    """
    return b"".join(_slim(kind, block) for kind, block in _blocks(content))


def _blocks(content: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(content):
        kind, length = struct.unpack_from("<II", content, place)
        yield kind, content[place : place + length]
        place += length


def _slim(kind: int, block: bytes) -> bytes:
    if kind not in FIXED:
        return block
    start = FIXED[kind]
    body = block[8:start] + _options(block[start:-4], MACHINE[kind])
    length = struct.pack("<I", len(body) + 12)
    return block[:4] + length + body + length


def _options(options: bytes, unwanted: set[int]) -> bytes:
    kept, place = b"", 0
    while place < len(options):
        code, size = struct.unpack_from("<HH", options, place)
        end = place + 4 + (size + 3) // 4 * 4
        if code not in unwanted:
            kept += options[place:end]
        place = end
    return kept
