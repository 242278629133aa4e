"""Checks of anonymous captures: stand-ins in place of names, and contents that must be gone."""

from __future__ import annotations

import base64
import ipaddress
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import kanalyze
from kanalyze.anonymization.anonymize import Anonymization, Anonymized
from kanalyze.anonymization.rules import WORDS
from kanalyze.anonymization.stand_ins import INTERNAL_TOPICS, StandIns
from kanalyze.export.files import OutputFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = b"a key that is used for tests ..."
STAND_INS = StandIns(KEY)
TABLES = ("requests", "connections", "records", "groups", "metadata")
MIN_NEEDLE = 6
_UUID_CHARACTERS = 22
_UUID = re.compile(r"[A-Za-z0-9_-]+")
_ENDS = re.compile(r"(\[?[0-9a-f.:]+\]?):(\d+)(>| -> )(\[?[0-9a-f.:]+\]?):(\d+)")


def anonymous(folder: Path, *captures: Path, strips: bool = False) -> Path:
    """Make captures anonymous with the key of the tests."""
    target = folder / f"{captures[0].name}.anonymous.pcapng"
    counted(target, *captures, strips=strips)
    return target


def counted(target: Path, *captures: Path, strips: bool = False) -> Anonymized:
    """Make captures anonymous, and return the counts of the run."""
    made = Anonymization(list(captures), KEY, strips_records=strips)
    return made.run(partial(OutputFile, str(target), private=True, replaces_captures=True))


def is_stand_in(original: object, found: object) -> bool:
    """Return true if a value equals the original one, except that names are replaced."""
    if original == found:
        return True
    if isinstance(original, str) and isinstance(found, str):
        return found == "x" * len(original) or found in _stand_ins_of(original)
    if isinstance(original, list | tuple) and isinstance(found, list | tuple):
        pairs = zip(original, found, strict=False)
        return len(original) == len(found) and all(is_stand_in(*pair) for pair in pairs)
    if isinstance(original, dict) and isinstance(found, dict):
        return original.keys() == found.keys() and all(
            is_stand_in(original[key], found[key]) for key in original
        )
    return False


def _stand_ins_of(text: str) -> Iterator[str]:
    raw = text.encode()
    yield STAND_INS.name(raw).decode()
    yield STAND_INS.host(raw).decode()
    yield STAND_INS.name_but(raw, WORDS).decode()
    ends = _ENDS.fullmatch(text)
    if ends is not None:
        one, port, arrow, other, other_port = ends.groups()
        yield f"{_address(one)}:{port}{arrow}{_address(other)}:{other_port}"
    if re.fullmatch(r"[0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*", text):
        yield _address(text)
    if len(text) == _UUID_CHARACTERS and _UUID.fullmatch(text):
        packed = base64.urlsafe_b64decode(text + "==")
        yield base64.urlsafe_b64encode(STAND_INS.uuid(packed)).decode().rstrip("=")


def _address(text: str) -> str:
    bare = text.strip("[]")
    try:
        packed = ipaddress.ip_address(bare).packed
    except ValueError:
        return text
    found = str(ipaddress.ip_address(STAND_INS.address(packed)))
    return f"[{found}]" if text.startswith("[") else found


def rows_of(capture: Path, table: str) -> list[Any]:
    """Return the rows of a table."""
    return list(getattr(kanalyze, table)(capture))


def needles(capture: Path) -> set[bytes]:
    """Return every name, address and content of a capture, of six bytes or more."""
    found: set[bytes] = set()
    for message in kanalyze.decode(capture):
        for text in _texts(message):
            found.add(text.encode())
            if len(text) == _UUID_CHARACTERS and _UUID.fullmatch(text):
                found.add(base64.urlsafe_b64decode(text + "=="))
    for record in kanalyze.records(capture, values=True):
        contents = [record.key, record.value, *(each.value for each in record.headers or ())]
        found |= {each.encode() for each in contents if isinstance(each, str)}
    for row in kanalyze.connections(capture):
        for address in map(ipaddress.ip_address, (row.client_ip, row.broker_ip)):
            if not address.is_loopback:
                found |= {str(address).encode(), address.packed}
    return {each for each in found if len(each) >= MIN_NEEDLE and not _stays(each)}


def _texts(value: object, field: str = "") -> Iterator[str]:
    """Yield every text of a decoded message, except those that our decoder adds."""
    if isinstance(value, str):
        if field not in _OURS:
            yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, field)


_OURS = frozenset(
    (
        *("capture", "status", "requestApiKeyName", "wire", "api_name", "error_name", "codec"),
        *("anomalies", "securityProtocol", "kind", "connection", "time", "type", "apiName"),
        *("recordsSizeInBytes", "compression", "codecs", "acknowledgeTypes"),
    )
)
"""Fields that our decoder adds."""


def _stays(needle: bytes) -> bool:
    """Return true if a text may stay: it is in a word of Kafka's, or reveals nothing."""
    if len(needle) == _UUID_BYTES and not any(needle[:-1]):
        return True
    kept = (*WORDS, *INTERNAL_TOPICS, b"/127.0.0.1", b"[hidden]")
    return len(set(needle)) == 1 or any(needle in each for each in kept)


_UUID_BYTES = 16
