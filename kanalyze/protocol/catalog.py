"""What Kafka speaks: its APIs, their versions, and the definitions of their messages.

In: the packaged tables and definition files. Out: :class:`Api` rows and, one file at a time as
they are asked for, :class:`~kanalyze.protocol.language.Message` definitions. Must not know of
bytes or decoders. Loaded at every start: what reads definitions is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kanalyze.errors import DefinitionError
from kanalyze.protocol.api_table import APIS, RELEASES
from kanalyze.protocol.versions import NONE, VersionRange

if TYPE_CHECKING:
    from kanalyze.protocol.language import Message

__all__ = ["RELEASES", "Api", "Catalog", "Kind"]

Kind: TypeAlias = Literal["request", "response"]

_NEVER = 1 << 16
"""A version beyond all: from which nothing is flexible."""
_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18


class Api(NamedTuple):
    """One API of Kafka."""

    key: int
    name: str
    """As in Kafka's definitions: ``Produce``, ``Fetch``, ``ListOffsets``, ..."""
    versions: VersionRange
    """Every version a release has spoken, removed ones included."""
    request_flexible_from: int
    """Version from which requests are flexible; above 32767 for never."""
    response_flexible_from: int
    first_release: str
    """Release it was first seen in; ``2.2``, the oldest looked at, stands for that or older."""
    listeners: tuple[str, ...]
    """``broker``, ``controller``, ``zkBroker``: who answers it."""
    by_release: tuple[str, ...]
    """Versions by release as text, in the order of :data:`RELEASES`; see :meth:`spoken_by`."""
    unstable: tuple[str, ...]
    """Versions that a release did not hold to be stable, as ``release:version``."""

    def spoken_by(self, release: str) -> VersionRange:
        """Return the versions that ``release`` speaks, the empty range for none.

        Raises KeyError when ``release`` is not in :data:`RELEASES`.
        """
        if release not in RELEASES:
            raise KeyError(release)
        text = self.by_release[RELEASES.index(release)]
        return NONE if text == "-" else VersionRange.parse(text)


class Catalog:
    """The API table and the definitions behind it.

    Definitions are read from the package on first use, one file at a time, and kept.
    """

    def __init__(self) -> None:
        rows = [_api(row) for row in APIS.splitlines()]
        self._apis = {api.key: api for api in rows}
        self._by_name = {api.name: api for api in rows}
        self._messages: dict[str, dict[str, Message]] = {}

    @property
    def apis(self) -> tuple[Api, ...]:
        """Every API, by rising key."""
        return tuple(self._apis.values())

    def api(self, key: int) -> Api | None:
        """Return the API with that key, None when there is none."""
        return self._apis.get(key)

    def named(self, name: str) -> Api | None:
        """Return the API with that name as Kafka writes it, None when there is none."""
        return self._by_name.get(name)

    def message(self, key: int, kind: Kind) -> Message:
        """Return the definition of an API's request or response.

        Reads that API's file on first use. Raises KeyError for an unknown key, DefinitionError
        for a definition that breaks the rules (never the packaged ones).
        """
        api = self._apis[key]
        suffix = "Request" if kind == "request" else "Response"
        return self._messages_in(f"{key:03d}_{api.name}.json")[api.name + suffix]

    def data(self, name: str) -> Message:
        """Return the definition of data inside messages, such as ``ConsumerProtocolSubscription``.

        Raises KeyError when there is none of that name.
        """
        return self._other("data", name)

    def header(self, kind: Kind) -> Message:
        """Return the definition of the request or the response header."""
        return self._other("header", "RequestHeader" if kind == "request" else "ResponseHeader")

    def request_header_version(self, key: int, version: int) -> int:
        """Return the header version (0, 1 or 2) of a request; never raises.

        A version newer than the table has the newest one's, an unknown API that of new APIs: 2.
        """
        api = self._apis.get(key)
        if api is None:
            return 2
        if version >= api.request_flexible_from:
            return 2
        return 0 if key == _CONTROLLED_SHUTDOWN and version <= 0 else 1

    def response_header_version(self, key: int, version: int) -> int:
        """Return the header version (0 or 1) of a response; never raises.

        That of ApiVersions is 0 in every version: a client must be able to read the answer of a
        broker that doesn't know the version asked (KIP-511). Otherwise as for requests.
        """
        if key == _API_VERSIONS:
            return 0
        api = self._apis.get(key)
        return 1 if api is None or version >= api.response_flexible_from else 0

    def _other(self, kind: str, name: str) -> Message:
        if not name.isidentifier():
            raise KeyError(name)
        try:
            return self._messages_in(f"{kind}_{name}.json")[name]
        except FileNotFoundError:
            raise KeyError(name) from None

    def _messages_in(self, file: str) -> dict[str, Message]:
        found = self._messages.get(file)
        if found is None:
            found = self._messages[file] = _read(file)
        return found


def _read(file: str) -> dict[str, Message]:
    """Read a packaged definition file; the imports are slow and most commands need few files."""
    from importlib.resources import files

    from kanalyze.protocol.loader import load_messages

    text = (files("kanalyze.protocol") / "definitions" / file).read_text("utf-8")
    messages = load_messages(text, file)
    by_name = {message.name: message for message in messages}
    if len(by_name) != len(messages):
        raise DefinitionError(f"{file}: a message stands twice")
    return by_name


def _api(row: str) -> Api:
    key, name, versions, request_from, response_from, first, *rest = row.split()
    *spoken, listeners, unstable = rest
    return Api(
        key=int(key),
        name=name,
        versions=VersionRange.parse(versions),
        request_flexible_from=_flexible_from(request_from),
        response_flexible_from=_flexible_from(response_from),
        first_release=first,
        listeners=tuple(listeners.split(",")),
        by_release=tuple(spoken),
        unstable=() if unstable == "-" else tuple(unstable.split(",")),
    )


def _flexible_from(text: str) -> int:
    return _NEVER if text == "never" else int(text)
