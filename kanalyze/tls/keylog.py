"""Key logs in the NSS format: the secrets of TLS sessions, one a line.

In: bytes of a key log, in any pieces, from a file that may grow or from a capture. Out:
:class:`KeyLog`, secrets by the ClientHello's random. Must not know: records, nor where a log comes
from.

    LABEL <client random, 32 bytes in hex> <secret in hex>
    RSA Session-ID:<session id in hex> Master-Key:<secret in hex>

The format: https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-05.html. The second line is
older: it names a session of TLS 1.2 by the id that the server gave it, and is what the Java agent
extract-tls-secrets writes. A log may be hostile:
a line is at most :data:`LONGEST_LINE_BYTES`, all secrets at most :data:`MOST_SECRETS`; beyond that
the oldest are dropped. No secret is in a ``repr``, an exception or a count; only
:meth:`KeyLog.used_lines` gives them away again, to who writes them to a file on purpose.
"""

from __future__ import annotations

import enum
import re
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST_LINE_BYTES", "MOST_SECRETS", "TLS_KEY_LOG", "KeyLog", "SecretKind"]

TLS_KEY_LOG: Final = 0x544C534B
"""The kind of the secrets that pcapng files have in this format."""

LONGEST_LINE_BYTES: Final = 1024
"""A line of TLS 1.3 with a secret of 48 bytes takes less than 200."""
MOST_SECRETS: Final = 1 << 19
"""About 250 bytes of memory each. A session of TLS 1.2 has one, of 1.3 four."""
_MOST_USED: Final = 1 << 14
"""Sessions of which it is remembered that they were decrypted: the latest ones."""
_RANDOM_BYTES: Final = 32
_MOST_SESSION_ID_BYTES: Final = 32
_MASTER_BYTES: Final = (48,)
_TRAFFIC_BYTES: Final = (32, 48)
"""As long as the hash of the suite."""


class SecretKind(enum.IntEnum):
    """What a secret is for."""

    MASTER = 0
    """Both directions of a session of TLS 1.2."""
    CLIENT_EARLY = 1
    CLIENT_HANDSHAKE = 2
    SERVER_HANDSHAKE = 3
    CLIENT_TRAFFIC = 4
    SERVER_TRAFFIC = 5
    SESSION = 6
    """As MASTER, by the session id of the ServerHello in place of the random."""


_LABELS: Final = {
    b"RSA_SESSION": (SecretKind.SESSION, _MASTER_BYTES),
    b"CLIENT_RANDOM": (SecretKind.MASTER, _MASTER_BYTES),
    b"CLIENT_EARLY_TRAFFIC_SECRET": (SecretKind.CLIENT_EARLY, _TRAFFIC_BYTES),
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET": (SecretKind.CLIENT_HANDSHAKE, _TRAFFIC_BYTES),
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET": (SecretKind.SERVER_HANDSHAKE, _TRAFFIC_BYTES),
    b"CLIENT_TRAFFIC_SECRET_0": (SecretKind.CLIENT_TRAFFIC, _TRAFFIC_BYTES),
    b"SERVER_TRAFFIC_SECRET_0": (SecretKind.SERVER_TRAFFIC, _TRAFFIC_BYTES),
}
_LABEL_OF: Final = {kind: label for label, (kind, _) in _LABELS.items()}
_SESSION_LINE: Final = re.compile(rb"RSA Session-ID:([0-9A-Fa-f]+) Master-Key:([0-9A-Fa-f]+)")
"""Is read as a line with a label of our own."""
_OTHER_LABELS: Final = {
    *(b"RSA", b"PMS_CLIENT_RANDOM", b"EXPORTER_SECRET", b"EARLY_EXPORTER_SECRET"),
    *(b"ECH_SECRET", b"ECH_CONFIG"),
}
"""Known, and not needed: of key exchanges that nobody uses any more, or not of records."""


class KeyLog:
    """The secrets of a key log, as far as it was read.

    Attributes:
        names: of the files that it was read from, without their folders.
        grows: whether secrets may still come, while packets are read: connections wait for them.
        version: rises when a secret is added: what could not be decrypted before may be now.
        lines: read so far, without empty ones and comments.
        other_lines: sound lines of labels that are not needed.
        wrong_lines: what is no line of a key log.
        dropped_secrets: those that there was no room for.
    """

    def __init__(self, most_secrets: int = MOST_SECRETS, *, grows: bool = False) -> None:
        self.names: list[str] = []
        self.grows = grows
        self._most_secrets = most_secrets
        self._secrets: dict[tuple[bytes, SecretKind], bytes] = {}
        self._used: dict[bytes, None] = {}
        self._rest = b""
        self._is_too_long = False
        self.version = 0
        self.lines = 0
        self.other_lines = 0
        self.wrong_lines = 0
        self.dropped_secrets = 0

    def __len__(self) -> int:
        return len(self._secrets)

    def feed(self, data: bytes | memoryview) -> None:
        """Read more of a log; what follows the last line end waits for the next call."""
        *lines, last_line = (self._rest + bytes(data)).split(b"\n")
        for line in lines:
            if self._is_too_long:  # what is left of it
                self._is_too_long = False
            else:
                self._read(line)
        if self._is_too_long:
            last_line = b""
        elif len(last_line) > LONGEST_LINE_BYTES:
            self._is_too_long = True
            self._count_wrong()
            last_line = b""
        self._rest = last_line

    def end(self) -> None:
        """Take what is left for a line: the end of a log, or of a block of a capture."""
        self.feed(b"\n")

    def find(self, name: bytes, kind: SecretKind) -> bytes | None:
        """Return a secret of the session with this random in its ClientHello (or this id)."""
        return self._secrets.get((name, kind))

    def randoms(self, kind: SecretKind) -> Iterator[bytes]:
        """Yield the randoms of all sessions with such a secret, the latest first."""
        return (random for random, each in reversed(self._secrets) if each is kind)

    def note_used(self, *names: bytes) -> None:
        """Remember that a session was decrypted, by its random and its id."""
        for name in names:
            self._used.pop(name, None)
            self._used[name] = None
        while len(self._used) > _MOST_USED:
            del self._used[next(iter(self._used))]

    def used_lines(self, used_names: set[bytes]) -> Iterator[bytes]:
        """Yield the lines of sessions that were decrypted, secrets and all.

        ``used_names`` are the names of sessions that are left out; those that are given are added.
        """
        for name in self._used:
            if name in used_names:
                continue
            used_names.add(name)
            for kind, label in _LABEL_OF.items():
                secret = self._secrets.get((name, kind))
                if secret is None:
                    continue
                words = name.hex().encode(), secret.hex().encode()
                if kind is SecretKind.SESSION:
                    yield b"RSA Session-ID:%b Master-Key:%b\n" % words
                else:
                    yield b"%b %b %b\n" % (label, *words)

    def _read(self, line: bytes) -> None:
        line = line.strip()
        if not line or line.startswith(b"#"):
            return
        self.lines += 1
        line = _SESSION_LINE.sub(rb"RSA_SESSION \1 \2", line)
        words = line.split(b" ") if len(line) <= LONGEST_LINE_BYTES else []
        if words and words[0] in _OTHER_LABELS:
            self.other_lines += 1
            return
        try:
            label, first, second = words
            kind, sizes = _LABELS[label]
            name, value = (bytes.fromhex(word.decode("ascii")) for word in (first, second))
        except (ValueError, KeyError):
            self.wrong_lines += 1
            return
        is_valid_length = len(name) == _RANDOM_BYTES
        if kind is SecretKind.SESSION:
            is_valid_length = 0 < len(name) <= _MOST_SESSION_ID_BYTES
        if is_valid_length and len(value) in sizes:
            self._keep((name, kind), value)
        else:
            self.wrong_lines += 1

    def _keep(self, key: tuple[bytes, SecretKind], value: bytes) -> None:
        if self._secrets.get(key) == value:
            return
        # To the end: it is the latest now.
        self._secrets.pop(key, None)
        self._secrets[key] = value
        self.version += 1
        if len(self._secrets) > self._most_secrets:
            # Many at once, so that the time it takes is in proportion to the lines.
            oldest = list(islice(self._secrets, self._most_secrets // 4 + 1))
            for each in oldest:
                del self._secrets[each]
            self.dropped_secrets += len(oldest)

    def _count_wrong(self) -> None:
        self.lines += 1
        self.wrong_lines += 1
