"""Metadata of captures: interfaces, names, comments, secrets; and the pcapng blocks that have them.

In: texts and bytes that a parser found, the bodies of blocks. Out: bounded collections of them
(:class:`FileMetadata`); clocks for the packets, and the number of dropped packets.

All of it is untrusted. Texts are kept as they are; the code that shows them escapes them. Secrets
are never part of a ``repr`` or of a message. The format of the blocks is that of the Internet-Draft
draft-ietf-opsawg-pcapng. A file has a handful of them.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_INTERFACES: Final = 65_536
MAX_COMMENTS: Final = 10_000
MAX_NAMES: Final = 65_536
MAX_NAMES_OF_ONE: Final = 64
MAX_TEXT_BYTES: Final = 4096
"""Size of one comment, name or other text; longer ones are cut."""
MAX_TEXTS_BYTES: Final = 8 << 20
"""Size of all texts together."""
MAX_SECRETS_BYTES: Final = 16 << 20
"""Size of all decryption secrets together."""
_BYTES_OF_AN_ENTRY: Final = 64
"""Added to the size of each entry, because empty ones take memory too."""


class CaptureInterface(NamedTuple):
    """An interface that packets were captured on. A pcap file has one, and no texts."""

    capture: str
    """Name of the capture that describes it."""
    link_type: int
    """LINKTYPE_ value: 1 Ethernet, 113 Linux cooked, ..."""
    snap_bytes: int
    """Largest number of bytes captured of a packet; 0 for no limit."""
    name: str | None = None
    description: str | None = None
    hardware: str | None = None
    system: str | None = None
    """Operating system of its machine."""
    filter: str | None = None
    """The capture filter as text; None without one, or if the file has only its BPF program."""

    @property
    def text(self) -> str | None:
        """Its name and filter in one line; None if it has neither.

        ``eth0 (bond to rack 2), filter: tcp port 9092``
        """
        if self.name is None and self.description is None and self.filter is None:
            return None
        name = self.name or self.description or "an interface without a name"
        if self.name and self.description:
            name += f" ({self.description})"
        return name if self.filter is None else f"{name}, filter: {self.filter}"


class Comment(NamedTuple):
    """A comment in a capture."""

    capture: str
    about: str
    """``section``, ``interface``, ``packet``, ``names``, ``statistics`` or ``secrets``."""
    number: int | None
    """Of a packet: its number in the capture, from 1; of an interface and its statistics: its
    number in the section, from 0; otherwise None."""
    text: str


class DecryptionSecrets(NamedTuple):
    """Keys to the encrypted data of a capture; never shown."""

    kind: int
    """Secrets type: 0x544c534b for a TLS key log (the NSS format)."""
    data: bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self.kind})"


class FileMetadata:
    """Collects the metadata of one or several captures, up to bounds."""

    def __init__(self) -> None:
        self.interfaces: list[CaptureInterface] = []
        """In the order of their descriptions, over all sections and captures."""
        self.names: dict[str, tuple[str, ...]] = {}
        """The names that captures give to IP addresses, by the address as canonical text."""
        self.comments: list[Comment] = []
        self.takes_secrets = True
        """False where nothing is to be decrypted."""
        self._secrets: dict[DecryptionSecrets, None] = {}
        self._remaining_secrets_bytes = MAX_SECRETS_BYTES
        self._remaining_text_bytes = MAX_TEXTS_BYTES

    @property
    def decryption_secrets(self) -> list[DecryptionSecrets]:
        """The secrets so far without repetitions, in the order of the captures."""
        return list(self._secrets)

    @property
    def takes_comments(self) -> bool:
        """Whether there is room for another comment."""
        return len(self.comments) < MAX_COMMENTS and self._remaining_text_bytes > 0

    def add_interface(self, interface: CaptureInterface) -> None:
        """Keep an interface."""
        texts = (interface.name, interface.description, interface.hardware)
        size = sum(len(text or "") for text in (*texts, interface.system, interface.filter))
        if len(self.interfaces) < MAX_INTERFACES and self._afford(size):
            self.interfaces.append(interface)

    def add_comment(self, capture: str, about: str, number: int | None, text: str) -> None:
        """Keep a comment."""
        if len(self.comments) < MAX_COMMENTS and self._afford(len(text)):
            self.comments.append(Comment(capture, about, number, text))

    def add_names(self, ip: str, names: tuple[str, ...]) -> None:
        """Add names of an IP address to those that it has."""
        listed = self.names.get(ip, ())
        new = tuple(dict.fromkeys(name for name in names if name and name not in listed))
        if not new:
            return
        room = len(self.names) < MAX_NAMES if not listed else len(listed) < MAX_NAMES_OF_ONE
        if room and self._afford(sum(map(len, new))):
            self.names[ip] = (listed + new)[:MAX_NAMES_OF_ONE]

    def add_secrets(self, kind: int, data: memoryview) -> None:
        """Keep a copy of secrets; the same secrets in several files are kept once."""
        size = len(data) + _BYTES_OF_AN_ENTRY
        if not self.takes_secrets or size > self._remaining_secrets_bytes:
            return
        secrets = DecryptionSecrets(kind, bytes(data))
        if secrets not in self._secrets:
            self._remaining_secrets_bytes -= size
            self._secrets[secrets] = None

    def _afford(self, size: int) -> bool:
        size += _BYTES_OF_AN_ENTRY
        if size > self._remaining_text_bytes:
            return False
        self._remaining_text_bytes -= size
        return True


def readable(data: bytes | memoryview) -> str:
    r"""Decode UTF-8, at most 4096 bytes; invalid bytes become escapes such as ``\xff``."""
    return bytes(data[:MAX_TEXT_BYTES]).rstrip(b"\0").decode("utf-8", "backslashreplace")


INTERFACE: Final = 1
NAMES: Final = 4
STATISTICS: Final = 5
SECRETS: Final = 10
"""Types of the blocks that :meth:`SectionMetadata.note` takes, as in :mod:`.packet_scan`."""

_MAX_INTERFACES: Final = 65_536
_MAX_RECORDS: Final = 1 << 20
"""Options or names that are read of one block."""
_SECTION_FIXED_BYTES: Final = 16

_COMMENT: Final = 1
_IF_NAME: Final = 2
_IF_DESCRIPTION: Final = 3
_IF_TSRESOL: Final = 9
_IF_FILTER: Final = 11
_IF_OS: Final = 12
_IF_TSOFFSET: Final = 14
_IF_HARDWARE: Final = 15
_IF_TSOFFSET_NS: Final = 19
_ISB_IFDROP: Final = 5
_ISB_OSDROP: Final = 7
_UNKNOWN_DROPS: Final = (1 << 64) - 1
_ADDRESS_BYTES: Final = {1: 4, 2: 16}
"""Size of the address by type of a name record: IPv4, IPv6. Other types are hardware addresses."""

_NS_PER_S: Final = 1_000_000_000
_INT64_MAX: Final = (1 << 63) - 1
_SAFE_NS: Final = 1 << 62
"""The sum of two such times fits in 64 bits."""
_NANOSECONDS: Final = 9
"""The resolution of nanoseconds."""


class Clock(NamedTuple):
    """How to read the timestamps and sizes of an interface's packets."""

    link_type: int
    snap_bytes: int
    """0 for no limit."""
    resolution: int = 6
    """``if_tsresol`` n: a unit is 10^-n s, or with bit 7 set, 2^-n s (n without that bit)."""
    offset_ns: int = 0
    """Sum of ``if_tsoffset`` and ``if_tsoffset_ns``, which is added to each time."""

    @property
    def factor(self) -> int:
        """Nanoseconds in a unit; 0 if only :meth:`time_ns` can compute times."""
        is_simple = self.resolution <= _NANOSECONDS and abs(self.offset_ns) < _SAFE_NS
        return 10 ** (_NANOSECONDS - self.resolution) if is_simple else 0

    @property
    def limit(self) -> int:
        """Largest timestamp, in units, for which :attr:`factor` can be used; -1 for none."""
        return _SAFE_NS // self.factor if self.factor else -1

    def time_ns(self, high: int, low: int) -> int:
        """Turn a timestamp into a Unix time in ns, rounded down, and limited to 0 to 2^63 - 1."""
        power = self.resolution & 0x7F
        per_s = 1 << power if self.resolution & 0x80 else 10**power
        exact = (high << 32 | low) * _NS_PER_S // per_s + self.offset_ns
        return min(max(exact, 0), _INT64_MAX)


class SectionMetadata:
    """Reads the descriptive blocks; ``clocks`` and drops are those of one section."""

    def __init__(self, name: str, description: FileMetadata) -> None:
        self._name = name
        self._description = description
        self._order = "<"
        self.clocks: list[Clock] = []
        """The interfaces of the section, by their number."""
        self._stated_drops: dict[tuple[int, int], int] = {}
        """By interface and counter, from statistics blocks."""
        self._counted_drops: dict[int, int] = {}
        """By interface, from options of its packets."""
        self._earlier_drops: int | None = None
        """Drops of earlier sections."""

    @property
    def dropped_packets(self) -> int | None:
        """Packets dropped in all sections so far; None if the file does not say it.

        An interface's statistics count from the start, so the last ones are used. Its packets give
        the same count in portions. The larger of the two is taken, because either may end early.
        """
        stated: dict[int, int] = {}
        for (interface, _), drops in self._stated_drops.items():
            stated[interface] = stated.get(interface, 0) + drops
        interfaces = stated.keys() | self._counted_drops.keys()
        if not interfaces:
            return self._earlier_drops
        here = sum(max(stated.get(i, 0), self._counted_drops.get(i, 0)) for i in interfaces)
        return (self._earlier_drops or 0) + here

    def begin_section(self, order: str, body: memoryview) -> None:
        """Begin a section: it has its own byte order, and its interfaces follow."""
        self._earlier_drops = self.dropped_packets
        self._stated_drops = {}
        self._counted_drops = {}
        self.clocks = []
        self._order = order
        self._note_comments("section", None, self._records(body[_SECTION_FIXED_BYTES:]))

    def count_drops(self, interface: int, drops: int) -> None:
        """Add the drops that packets of an interface report."""
        self._counted_drops[interface] = self._counted_drops.get(interface, 0) + drops

    def note(self, kind: int, body: memoryview) -> bool:
        """Read a block that is no packet; return false if it contradicts itself.

        Invalid names and secrets are left out, because no packet depends on them.
        """
        if kind == INTERFACE:
            return self._note_interface(body)
        if kind == STATISTICS:
            return self._note_statistics(body)
        if kind == NAMES:
            self._note_names(body)
        else:
            self._note_secrets(body)
        return True

    def _note_interface(self, body: memoryview) -> bool:
        if len(body) < 8 or len(self.clocks) >= _MAX_INTERFACES:
            return False
        link_type, _reserved, snap_bytes = struct.unpack_from(f"{self._order}HHI", body)
        options = list(islice(self._records(body[8:]), _MAX_RECORDS))
        resolution, offset_ns = 6, 0
        texts: dict[int, str] = {}
        for code, value in options:
            if code == _IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == _IF_TSOFFSET and len(value) == 8:
                offset_ns += struct.unpack(f"{self._order}q", value)[0] * _NS_PER_S
            elif code == _IF_TSOFFSET_NS and len(value) == 4:
                offset_ns += struct.unpack(f"{self._order}i", value)[0]
            elif code in {_IF_NAME, _IF_DESCRIPTION, _IF_OS, _IF_HARDWARE}:
                texts[code] = readable(value)
            elif code == _IF_FILTER and len(value) and value[0] == 0:
                texts[code] = readable(value[1:])
        self._note_comments("interface", len(self.clocks), options)
        self.clocks.append(Clock(link_type, snap_bytes, resolution, offset_ns))
        self._description.add_interface(
            CaptureInterface(
                self._name,
                link_type,
                snap_bytes,
                name=texts.get(_IF_NAME),
                description=texts.get(_IF_DESCRIPTION),
                hardware=texts.get(_IF_HARDWARE),
                system=texts.get(_IF_OS),
                filter=texts.get(_IF_FILTER),
            )
        )
        return True

    def _note_statistics(self, body: memoryview) -> bool:
        if len(body) < 12:
            return False
        interface = struct.unpack_from(f"{self._order}I", body)[0]
        if interface >= len(self.clocks):
            return True
        options = list(islice(self._records(body[12:]), _MAX_RECORDS))
        for code, value in options:
            if code in {_ISB_IFDROP, _ISB_OSDROP} and len(value) == 8:
                drops = struct.unpack(f"{self._order}Q", value)[0]
                if drops != _UNKNOWN_DROPS:
                    self._stated_drops[interface, code] = drops
        self._note_comments("statistics", interface, options)
        return True

    def _note_names(self, body: memoryview) -> None:
        """Note the names of IP addresses; after them come options."""
        import ipaddress  # few captures have names

        at = 0
        for code, value in islice(self._records(body), _MAX_RECORDS):
            at += 4 + len(value) + (-len(value) % 4)
            size = _ADDRESS_BYTES.get(code, len(value))
            if len(value) <= size:
                continue
            names = [readable(name) for name in bytes(value[size : size + 65_536]).split(b"\0")]
            address = ipaddress.ip_address(bytes(value[:size]))
            self._description.add_names(str(address), tuple(filter(None, names)))
        self._note_comments("names", None, self._records(body[at + 4 :]))

    def _note_secrets(self, body: memoryview) -> None:
        if len(body) < 8:
            return
        kind, size = struct.unpack_from(f"{self._order}II", body)
        if size <= len(body) - 8:
            self._description.add_secrets(kind, body[8 : 8 + size])
            end = 8 + size + (-size % 4)
            self._note_comments("secrets", None, self._records(body[end:]))

    def note_comment(self, about: str, number: int | None, text: bytes | memoryview) -> None:
        """Note a comment."""
        self._description.add_comment(self._name, about, number, readable(text))

    def note_packet_comment(self, number: int, text: memoryview) -> None:
        """Note a comment to a packet, which is not even read above the limit."""
        if self._description.takes_comments:
            self.note_comment("packet", number, text)

    def _note_comments(
        self,
        about: str,
        number: int | None,
        options: Iterator[tuple[int, memoryview]] | list[tuple[int, memoryview]],
    ) -> None:
        for code, value in islice(options, _MAX_RECORDS):
            if code == _COMMENT:
                self.note_comment(about, number, value)

    def _records(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield code and value of each option or record, up to the end mark or a cut one."""
        at = 0
        layout = struct.Struct(f"{self._order}HH")
        while at + 4 <= len(data):
            code, length = layout.unpack_from(data, at)
            value = data[at + 4 : at + 4 + length]
            if code == 0 or len(value) < length:
                return
            yield code, value
            at += 4 + length + (-length % 4)
