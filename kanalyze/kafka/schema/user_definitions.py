"""A folder of message definitions that a user adds to the built-in ones.

In: a folder's name. Out: its messages by API key and name, each checked by the loader.

A folder may hold what a Kafka source tree has in clients/src/main/resources/common/message: JSON
files of one message or more. Requests, responses and ``data`` messages are used. Headers, whose
layout a user cannot change, and messages that don't travel in requests are checked, then ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.loader import load_messages

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import MessageSpec

__all__ = ["UserDefinitions", "UserMessage", "read_definitions"]

MAX_FILES = 10_000
MAX_FILE_BYTES = 4 << 20
MAX_VERSIONS = 1000
"""Most versions of one message; Kafka has 19."""


class UserMessage(NamedTuple):
    """A message and where it was read."""

    file: str
    """For error messages."""
    message: MessageSpec


class UserDefinitions(NamedTuple):
    """The messages of a folder."""

    requests: dict[int, UserMessage]
    """By API key."""
    responses: dict[int, UserMessage]
    data: dict[str, UserMessage]
    """By name."""


def read_definitions(folder: str | Path) -> UserDefinitions:
    """Read every ``*.json`` in a folder, but not in its subfolders.

    Raises DefinitionError, with file, field and reason, for a definition that breaks the rules of
    the language, a message that is defined twice, and a folder that cannot be read or has no
    definitions.
    """
    definitions = UserDefinitions({}, {}, {})
    files = _files(Path(folder))
    for path in files:
        for message in load_messages(_text(path), str(path)):
            _add(definitions, UserMessage(str(path), message))
    return definitions


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DefinitionError(f"{folder}: not a folder of message definitions")
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise DefinitionError(f"{folder}: {error.strerror}") from None
    if not files:
        raise DefinitionError(f"{folder}: there is no *.json with message definitions")
    if len(files) > MAX_FILES:
        raise DefinitionError(f"{folder}: more than {MAX_FILES} files")
    return files


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DefinitionError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise DefinitionError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path}: not UTF-8 at byte {error.start}") from None


def _add(definitions: UserDefinitions, added: UserMessage) -> None:
    message = added.message
    if len(message.valid_versions.each()) > MAX_VERSIONS:
        raise DefinitionError(f"{added.file}: {message.name}: more than {MAX_VERSIONS} versions")
    if message.valid_versions.is_empty:
        return  # Kafka's way to say that an API was removed
    if message.kind == "data":
        other = definitions.data.setdefault(message.name, added)
    elif message.api_key is not None:
        messages = definitions.requests if message.kind == "request" else definitions.responses
        other = messages.setdefault(message.api_key, added)
        _check_name(added)
    else:
        return
    if other is not added:
        raise DefinitionError(
            f"{added.file}: {message.name}: the {message.kind} stands in {other.file} already"
        )


def _check_name(added: UserMessage) -> None:
    """Refuse a name without the ending of its kind; what precedes the ending names the API."""
    name, kind = added.message.name, added.message.kind
    ending = kind.capitalize()
    if not name.removesuffix(ending) or not name.endswith(ending):
        raise DefinitionError(f"{added.file}: {name}: the name of a {kind} ends in {ending}")
