"""Names what is not read here: other capture formats, text about packets, archives, web pages.

In: the first bytes of a file. Out: its format, and how to make a capture that is read.

The magic numbers are facts from the readers in Wireshark's ``wiretap/``, which ``editcap`` uses,
from APPNOTE.TXT (zip), POSIX (tar) and from Kafka's documentation of its log segments.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from kanalyze.common.named_tuples import NamedTuple

LOOK_BYTES: Final = 4 << 10
"""Bytes of a file's beginning that are enough to recognize a format."""


class ForeignFormat(NamedTuple):
    """A format that is not read, in words that follow "is not a capture but"."""

    name: str
    advice: str
    """What to do."""


_EDITCAP: Final = "convert it with `editcap -F pcap IN OUT`"
_UNPACK: Final = "unpack it before"
_DECOMPRESS: Final = "decompress it before"
_DOWNLOAD: Final = "a download has failed: look at it, and get the capture again"
_TSHARK: Final = "capture with `tshark -w FILE`"


def _captures(*known: tuple[bytes, str]) -> tuple[tuple[int, bytes, ForeignFormat], ...]:
    return tuple((0, magic, ForeignFormat(f"{name} capture", _EDITCAP)) for magic, name in known)


_MAGICS: Final = (
    *_captures(
        (b"snoop\0\0\0", "a snoop"),
        (b"RTSS", "a Network Monitor 1"),
        (b"GMBU", "a Network Monitor 2"),
        (b"iptrace 1.0", "an AIX iptrace"),
        (b"iptrace 2.0", "an AIX iptrace"),
        (b"TRSNIFF data    \x1a", "a Sniffer"),
        (b"XCP\0", "a NetXray or Sniffer"),
        (b"\x7fver", "an EtherPeek or OmniPeek"),
        (b"ObserverPktBuffe", "an Observer"),
        (b"\x05VNF", "a Visual Networks"),
        (b"\xaa\xaa\xaa\xaa\x20\0\0\0", "a 5View"),
        (b"\x54\x52\x00\x64\x00", "an HP-UX nettl"),
        (b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x07\xd0\x00", "an HP-UX nettl"),
        (b"\x42\xd2\x00\x34\x12\x66\x22\x88", "a RADCOM"),
        (b"\x01\x10\x4c\x00\x01\x05Trace Display", "a LANalyzer"),
        (b"+---------+---------------+----------+", "a K12 text"),
    ),
    (0, b"btsnoop\0", ForeignFormat("a Bluetooth capture (btsnoop)", "it has no TCP in it")),
    (0, b"PK\x03\x04", ForeignFormat("a zip archive", _UNPACK)),
    (0, b"PK\x05\x06", ForeignFormat("an empty zip archive", "there is no capture in it")),
    (0, b"7z\xbc\xaf\x27\x1c", ForeignFormat("a 7-Zip archive", _UNPACK)),
    (0, b"Rar!\x1a\x07", ForeignFormat("a RAR archive", _UNPACK)),
    (257, b"ustar", ForeignFormat("a tar archive", _UNPACK)),
    (0, b"\x1f\x9d", ForeignFormat("data of compress (.Z)", _DECOMPRESS)),
    (0, b"LZIP\x01", ForeignFormat("lzip data", _DECOMPRESS)),
    (0, b"\x89LZO\0\r\n\x1a\n", ForeignFormat("lzop data", _DECOMPRESS)),
    (0, b"\xff\x06\0\0sNaPpY", ForeignFormat("snappy data", _DECOMPRESS)),
    (
        0,
        b"PAR1",
        ForeignFormat("a Parquet file", "it has rows, not packets: query it with `duckdb`"),
    ),
    (
        0,
        b"version https://git-lfs.github.com/",
        ForeignFormat("a pointer of Git LFS", "get the file itself with `git lfs pull`"),
    ),
)
"""Formats by their bytes at an offset."""

_TCPDUMP: Final = ForeignFormat("tcpdump's text", "capture with `tcpdump -w FILE`")
_TSHARK_TEXT: Final = ForeignFormat("text of tshark or Wireshark", _TSHARK)
_TIME: Final = rb"(?:\d{4}-\d\d-\d\d )?(?:\d\d:\d\d:\d\d\.\d{3,9}|\d+\.\d{6,9})"
_TSHARK_TIME: Final = rb"(?:\d{4}-\d\d-\d\d )?(?:\d\d:\d\d:)?\d+\.\d+"
_KEY_LOG_LABEL: Final = rb"(?:CLIENT_RANDOM|(?:CLIENT|SERVER)_(?:HANDSHAKE|TRAFFIC)\w*)"
_PROTOCOL: Final = rb"(?:IP6? |ARP,|IP6?$|[0-9a-f:]{17} )"
_TEXTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.MULTILINE), known)
    for pattern, known in (
        (rb"\s*(?:<!doctype html|<html|<head|<body)", ForeignFormat("a web page", _DOWNLOAD)),
        (rb"\s*<\?xml[^<]*(?:<[?!][^<]*)*<p[ds]ml", _TSHARK_TEXT),
        (rb"\s*<\?xml", ForeignFormat("an XML document", _DOWNLOAD)),
        (rb'\s*\[?\s*\{\s*"(?:index"\s*:\s*\{\s*")?_index"\s*:\s*"packets-', _TSHARK_TEXT),
        (rb"\s*Frame \d+: \d+ bytes on wire", _TSHARK_TEXT),
        (rb'"?No\."?[ ,\t]+"?Time"?[ ,\t]+"?Source', _TSHARK_TEXT),
        (rb"[ \t]*\d+[ \t]+" + _TSHARK_TIME + rb"[ \t]+\S+[ \t]+(?:->|\xe2\x86\x92)", _TSHARK_TEXT),
        (
            rb"[ \t]*(?:0x)?[0-9a-f]{4,8}:?[ \t]+(?:[0-9a-f]{2}[ \t]+){8}",
            ForeignFormat("a hex dump", "convert it with `text2pcap IN OUT`"),
        ),
        (rb"reading from file .*, link-type |tcpdump: (?:listening on|verbose output)", _TCPDUMP),
        (rb" ?(?:" + _TIME + rb" )(?:\S+ +(?:In|Out|B|M|P) +)?" + _PROTOCOL, _TCPDUMP),
        (rb"IP6? \S+ > \S+: ", _TCPDUMP),
        (
            rb"(?:#[^\n]*\n)*" + _KEY_LOG_LABEL + rb" [0-9a-f]{64} ",
            ForeignFormat("a TLS key log", "give it with --keylog FILE, beside a capture"),
        ),
        (rb'\s*[\[{]\s*"', ForeignFormat("JSON", "it has no packets: get the capture itself")),
    )
)
"""Formats that are text, by what they begin with."""

_ERF: Final = ForeignFormat("an Endace ERF capture", _EDITCAP)
_ERF_HEADER: Final = struct.Struct("<IIBB")
_ERF_LENGTHS: Final = struct.Struct(">HHH")
_ERF_HEADER_BYTES: Final = 16
_ERF_TYPES: Final = range(1, 28)
_MORE_HEADERS: Final = 0x80
"""The bit of a record's type that says that extension headers follow."""
_MIN_RECORDS: Final = 2
_LATEST_S: Final = 1 << 32

_COMMVIEW: Final = ForeignFormat("a CommView capture", _EDITCAP)
_COMMVIEW_HEADERS: Final = (struct.Struct("<HHxHBBBBB"), struct.Struct("<IHBBBBB"))
"""The two formats, NCF and NCFX: sizes of the packet, then date and time."""
_COMMVIEW_YEARS: Final = range(1970, 2039)

_SEGMENT: Final = ForeignFormat(
    "a log segment of a Kafka broker",
    "it has records, not packets: read it with `kafka-dump-log.sh --files FILE`",
)
_BATCH: Final = struct.Struct(">qiibIhi")
"""A batch up to its magic, which older formats have in the same place; then that of magic 2."""
_BATCH_BYTES: Final = 61
_MIN_BATCH: Final = 49
_MAX_BATCH: Final = 1 << 30
_KEY_AT: Final = {0: 18, 1: 26}
"""Where the length of the key is in a message of older formats, by magic."""
_SIZED_FROM: Final = 12
"""Where the bytes begin that the size of a message counts."""
_COMPRESSION_AND_TYPE: Final = 0x7F
"""The attributes that a batch may have."""


def foreign_format(begin: bytes) -> ForeignFormat | None:
    """Return what a file is that begins with these bytes; None if nobody can tell.

    ``begin`` should have ``LOOK_BYTES``, or the whole file.
    """
    for at, magic, known in _MAGICS:
        if begin[at : at + len(magic)] == magic:
            return known
    for pattern, known in _TEXTS:
        if pattern.match(begin):
            return known
    if _is_segment(begin):
        return _SEGMENT
    if _is_commview(begin):
        return _COMMVIEW
    return _ERF if _is_erf(begin) else None


def _is_segment(begin: bytes) -> bool:
    """Return true if these bytes could be the header of a record batch, at the start of a log."""
    if len(begin) < _BATCH_BYTES:
        return False
    offset, length, epoch, magic, _, attributes, last_delta = _BATCH.unpack_from(begin)
    if offset < 0 or length > _MAX_BATCH:
        return False
    if magic in _KEY_AT:
        return _is_message(begin, length, _KEY_AT[magic])
    if magic != 2 or length < _MIN_BATCH or epoch < -1 or last_delta < -1:
        return False
    first_ms, last_ms = struct.unpack_from(">qq", begin, 27)
    return bool(0 <= attributes <= _COMPRESSION_AND_TYPE and first_ms >= -1 and last_ms >= -1)


def _is_message(begin: bytes, size: int, key_at: int) -> bool:
    """Return true if the lengths of a message's key and value add up to its size."""
    key_bytes = struct.unpack_from(">i", begin, key_at)[0]
    value_at = key_at + 4 + max(key_bytes, 0)
    if key_bytes < -1 or value_at + 4 > len(begin):
        return False
    value_bytes = struct.unpack_from(">i", begin, value_at)[0]
    return bool(value_bytes >= -1 and value_at + 4 + max(value_bytes, 0) == _SIZED_FROM + size)


def _is_commview(begin: bytes) -> bool:
    """Return true if a packet's header of CommView begins here: its date and time are numbers."""
    for layout in _COMMVIEW_HEADERS:
        if len(begin) >= layout.size:
            *sizes, year, month, day, hour, minute, second = layout.unpack_from(begin)
            is_date = year in _COMMVIEW_YEARS and 1 <= month <= 12 and 1 <= day <= 31
            if is_date and hour < 24 and minute < 60 and second < 60 and 0 < min(sizes) <= 65_535:
                return True
    return False


def _is_erf(begin: bytes) -> bool:
    """Return true if records of Endace's format follow each other in these bytes.

    There is no magic: each record has a time, in an order that rises, a type and its size.
    """
    at = records = 0
    latest = 0
    while at + _ERF_HEADER_BYTES <= len(begin):
        _, seconds, kind, _flags = _ERF_HEADER.unpack_from(begin, at)
        size, _lost, wire = _ERF_LENGTHS.unpack_from(begin, at + 10)
        is_known = kind & ~_MORE_HEADERS in _ERF_TYPES and size >= _ERF_HEADER_BYTES
        if not is_known or not wire or not 0 < seconds < _LATEST_S or seconds < latest:
            return False
        at, records, latest = at + size, records + 1, seconds
    return records >= _MIN_RECORDS or (records == 1 and at == len(begin))
