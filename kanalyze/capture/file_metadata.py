"""Metadata of captures: interfaces, names, comments, secrets.

In: texts and bytes that a parser found. Out: bounded collections of them.

All of it is untrusted. Texts are kept as they are; the code that shows them escapes them. Secrets
are never part of a ``repr`` or of a message.
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.named_tuples import NamedTuple

__all__ = [
    "CaptureInterface",
    "Comment",
    "DecryptionSecrets",
    "FileMetadata",
    "readable",
]

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
        self.omitted = 0
        """Number of entries that were not kept, because they are too many or invalid."""
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
        else:
            self.omitted += 1

    def add_comment(self, capture: str, about: str, number: int | None, text: str) -> None:
        """Keep a comment."""
        if len(self.comments) < MAX_COMMENTS and self._afford(len(text)):
            self.comments.append(Comment(capture, about, number, text))
        else:
            self.omitted += 1

    def add_names(self, ip: str, names: tuple[str, ...]) -> None:
        """Add names of an IP address to those that it has."""
        listed = self.names.get(ip, ())
        new = tuple(dict.fromkeys(name for name in names if name and name not in listed))
        if not new:
            return
        room = len(self.names) < MAX_NAMES if not listed else len(listed) < MAX_NAMES_OF_ONE
        if room and self._afford(sum(map(len, new))):
            self.names[ip] = (listed + new)[:MAX_NAMES_OF_ONE]
        else:
            self.omitted += 1

    def add_secrets(self, kind: int, data: memoryview) -> None:
        """Keep a copy of secrets; the same secrets in several files are kept once."""
        size = len(data) + _BYTES_OF_AN_ENTRY
        if size > MAX_SECRETS_BYTES:
            self.omitted += 1
            return
        secrets = DecryptionSecrets(kind, bytes(data))
        if secrets in self._secrets:
            return
        if size > self._remaining_secrets_bytes:
            self.omitted += 1
            return
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
