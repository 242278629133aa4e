"""Key logs in the NSS format: the secrets of TLS sessions, one per line.

In: bytes of a key log, in any pieces, from a file that may grow or from a capture. Out:
:class:`KeyLog`, secrets by the ClientHello's random.

    LABEL <client random, 32 bytes in hex> <secret in hex>
    RSA Session-ID:<session id in hex> Master-Key:<secret in hex>

The format: https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-05.html. The second line is
older: it names a session of TLS 1.2 by the id that the server gave it. The Java agent
extract-tls-secrets writes it. A log may be hostile: a line has at most :data:`LONGEST_LINE_BYTES`,
and at most :data:`MAX_SECRETS` secrets are kept; beyond that the oldest are dropped. No secret is
in a ``repr``, an exception or a count; only :meth:`KeyLog.used_lines` returns them, for files that
shall have them.
"""

from __future__ import annotations

import enum
import importlib.util
import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

TLS_KEY_LOG: Final = 0x544C534B
"""Secrets type of this format in pcapng files."""

NOT_A_KEY_LOG: Final = "not a TLS key log: no line has a secret"
"""What users are told about a file with lines, none of which has a secret."""

LONGEST_LINE_BYTES: Final = 1024
"""A line of TLS 1.3 with a secret of 48 bytes takes less than 200."""
MAX_SECRETS: Final = 1 << 19
"""About 250 bytes of memory each. A session of TLS 1.2 has one, of 1.3 four."""
_MAX_USED: Final = 1 << 14
"""Names of sessions that were decrypted; the latest ones are remembered."""
_RANDOM_BYTES: Final = 32
_MAX_SESSION_ID_BYTES: Final = 32
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
    """As MASTER, but found by the session id of the ServerHello, not by the random."""


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
"""The older line; it is rewritten with the label RSA_SESSION, which only this module uses."""
_OTHER_LABELS: Final = {
    *(b"RSA", b"PMS_CLIENT_RANDOM", b"EXPORTER_SECRET", b"EARLY_EXPORTER_SECRET"),
    *(b"ECH_SECRET", b"ECH_CONFIG"),
}
"""Known labels that are not needed: of obsolete key exchanges, or of secrets not for records."""


class KeyLog:
    """The secrets of a key log, as far as it was read.

    Attributes:
        names: names of the files that it was read from, without their folders.
        grows: whether secrets may be added while packets are read; then connections wait for them.
        version: rises with each added secret, which may decrypt more connections.
        lines: lines read so far, without empty ones and comments.
        other_lines: valid lines whose labels are not needed.
        wrong_lines: lines that are not of a key log.
    """

    def __init__(self, most_secrets: int = MAX_SECRETS, *, grows: bool = False) -> None:
        self.names: list[str] = []
        self.grows = grows
        self._most_secrets = most_secrets
        self._secrets: dict[tuple[bytes, SecretKind], bytes] = {}
        self._used: dict[bytes, None] = {}
        self._incomplete_line = b""
        self._is_too_long = False
        self.version = 0
        self.lines = 0
        self.other_lines = 0
        self.wrong_lines = 0

    def __len__(self) -> int:
        return len(self._secrets)

    def feed(self, data: bytes | memoryview) -> None:
        """Read more of a log; an incomplete last line is kept for the next call."""
        *lines, last_line = (self._incomplete_line + bytes(data)).split(b"\n")
        for line in lines:
            if self._is_too_long:  # this is the end of that line
                self._is_too_long = False
            else:
                self._read(line)
        if self._is_too_long:
            last_line = b""
        elif len(last_line) > LONGEST_LINE_BYTES:
            self._is_too_long = True
            self._count_wrong()
            last_line = b""
        self._incomplete_line = last_line

    def end(self) -> None:
        """Take the incomplete last line as a line: the log, or its block of a capture, ends."""
        self.feed(b"\n")

    def find(self, name: bytes, kind: SecretKind) -> bytes | None:
        """Return a secret of the session with this random in its ClientHello (or this id)."""
        return self._secrets.get((name, kind))

    def randoms(self, kind: SecretKind) -> Iterator[bytes]:
        """Yield the randoms (or ids) of all sessions with a secret of a kind, the latest first."""
        return (random for random, other_kind in reversed(self._secrets) if other_kind is kind)

    def note_used(self, *names: bytes) -> None:
        """Remember that a session was decrypted, by its random and its id."""
        for name in names:
            self._used.pop(name, None)
            self._used[name] = None
        while len(self._used) > _MAX_USED:
            del self._used[next(iter(self._used))]

    def used_lines(self, used_names: set[bytes]) -> Iterator[bytes]:
        """Yield the lines of sessions that were decrypted, with their secrets.

        Sessions in ``used_names`` are left out; the sessions of the yielded lines are added to it.
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
            is_valid_length = 0 < len(name) <= _MAX_SESSION_ID_BYTES
        if is_valid_length and len(value) in sizes:
            self._keep((name, kind), value)
        else:
            self.wrong_lines += 1

    def _keep(self, key: tuple[bytes, SecretKind], value: bytes) -> None:
        if self._secrets.get(key) == value:
            return
        # Move it to the end, because it is the latest now.
        self._secrets.pop(key, None)
        self._secrets[key] = value
        self.version += 1
        if len(self._secrets) > self._most_secrets:
            # Drop a quarter at once, so that the total time is linear in the lines.
            for oldest in list(islice(self._secrets, self._most_secrets // 4 + 1)):
                del self._secrets[oldest]

    def _count_wrong(self) -> None:
        self.lines += 1
        self.wrong_lines += 1


def are_ciphers_installed() -> bool:
    """Return true if records can be decrypted."""
    return importlib.util.find_spec("cryptography") is not None


def require_ciphers() -> None:
    """Raise UsageError unless records can be decrypted."""
    if not are_ciphers_installed():
        raise UsageError("decryption needs cryptography: pip install 'kanalyze[tls]'")
