"""Kafka's APIs, their versions, and the definitions of their messages.

In: the packaged tables and definition files, and a user's own. Out: :class:`Api` rows, and
:class:`~kanalyze.kafka.schema.schema_ast.MessageSpec` definitions, whose files are read one at a
time on first use. It is loaded at every start, so it imports the modules that read definitions on
first use.
"""

from __future__ import annotations

from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.paths import beside, opened
from kanalyze.errors import DefinitionError
from kanalyze.kafka.schema.api_table import APIS, RELEASES, SUPERSEDED
from kanalyze.kafka.schema.schema_ast import NONE, VersionRange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kanalyze.kafka.schema.loader import UserDefinitions, UserMessage
    from kanalyze.kafka.schema.schema_ast import MessageSpec

Kind: TypeAlias = Literal["request", "response"]

_NEVER = 1 << 16
"""A version above all real ones: no version is flexible."""
_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18


class Api(NamedTuple):
    """One API of Kafka."""

    key: int
    name: str
    """As in Kafka's definitions: ``Produce``, ``Fetch``, ``ListOffsets``, ..."""
    versions: VersionRange
    """Every version that a release supported, removed ones included."""
    request_flexible_from: int
    """Version from which requests are flexible; above 32767 for never."""
    response_flexible_from: int
    first_release: str
    """Release it was first seen in. ``2.2``, the oldest release examined, stands for 2.2 or older;
    ``-`` for an API that a user defined."""
    listeners: tuple[str, ...]
    """``broker``, ``controller``, ``zkBroker``: who answers it."""
    by_release: tuple[str, ...]
    """Versions by release as text, in the order of :data:`RELEASES`; see :meth:`spoken_by`."""
    unstable: tuple[str, ...]
    """Versions that a release marked as unstable, as ``release:version``."""

    def spoken_by(self, release: str) -> VersionRange:
        """Return the versions that ``release`` supports; the empty range if there are none.

        Raises KeyError when ``release`` is not in :data:`RELEASES`.
        """
        if release not in RELEASES:
            raise KeyError(release)
        text = self.by_release[RELEASES.index(release)]
        return NONE if text == "-" else VersionRange.parse(text)


class Catalog:
    """The API table and the definitions behind it.

    Definitions are read from the package on first use, one file at a time, once in a process: all
    catalogs share what was read. A user's definitions are read at once, so that errors in them come
    before any work.
    """

    def __init__(self, definitions: str | Path | None = None) -> None:
        """Make the table.

        Args:
            definitions: a folder of message definitions, added to the built-in ones. If a message
                is in both, the folder's definition decides for the versions that it has; see
                :mod:`kanalyze.kafka.schema.overlay`.

        Raises:
            DefinitionError: the folder cannot be read, or a definition in it breaks a rule.
        """
        self._superseded: dict[tuple[int, Kind], MessageSpec] = {}
        self._user_messages: dict[tuple[int, Kind], MessageSpec] = {}
        self._user_data: dict[str, MessageSpec] = {}
        if definitions is not None:
            from kanalyze.kafka.schema.loader import read_definitions

            self._add(read_definitions(definitions))

    @cached_property
    def _apis(self) -> dict[int, Api]:
        return dict(_built_in_apis())

    @cached_property
    def _by_name(self) -> dict[str, Api]:
        return {api.name: api for api in self._apis.values()}

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

    def message(self, key: int, kind: Kind) -> MessageSpec:
        """Return the definition of an API's request or response.

        Reads that API's file on first use. Raises KeyError for an unknown key, DefinitionError
        for a definition that breaks the rules (never the packaged ones).
        """
        user_message = self._user_messages.get((key, kind))
        return self._built_in(self._apis[key], kind) if user_message is None else user_message

    def is_built_in(self, key: int, kind: Kind) -> bool:
        """Return true if :meth:`message` gives a packaged definition, not one of a user."""
        return (key, kind) not in self._user_messages

    def superseded(self, key: int, kind: Kind, version: int) -> MessageSpec | None:
        """Return another layout that some releases gave a version; None if there is none.

        A version that Kafka marks as unstable may change from release to release. The definition
        has every field that :meth:`message` has; fields that its layout lacks are in no version.
        """
        releases = SUPERSEDED.get((key, kind))
        if releases is None or not self.is_built_in(key, kind):
            return None
        spec = self._superseded.get((key, kind))
        if spec is None:
            from kanalyze.kafka.schema.overlay import overlay

            api = self._apis[key]
            upper = _message_of(_read(f"superseded/{_file_of(api)}"), api, kind)
            spec = overlay(upper, self._built_in(api, kind))._replace(
                valid_versions=upper.valid_versions, releases=releases
            )
            self._superseded[key, kind] = spec
        return spec if spec.valid_versions.contains(version) else None

    def data(self, name: str) -> MessageSpec:
        """Return the definition of data inside messages, such as ``ConsumerProtocolSubscription``.

        Raises KeyError when there is none of that name.
        """
        user_message = self._user_data.get(name)
        return self._other("data", name) if user_message is None else user_message

    def header(self, kind: Kind) -> MessageSpec:
        """Return the definition of the request or the response header."""
        return self._other("header", "RequestHeader" if kind == "request" else "ResponseHeader")

    def request_header_version(self, key: int, version: int) -> int:
        """Return the header version (0, 1 or 2) of a request; never raises.

        A version newer than the table has the header of the newest version in it. An unknown API
        has that of new APIs: 2.
        """
        api = self._apis.get(key)
        if api is None:
            return 2
        if version >= api.request_flexible_from:
            return 2
        return 0 if key == _CONTROLLED_SHUTDOWN and version <= 0 else 1

    def response_header_version(self, key: int, version: int) -> int:
        """Return the header version (0 or 1) of a response; never raises.

        ApiVersions has 0 in every version: a client must be able to read the answer of a broker
        that doesn't know the requested version (KIP-511). Otherwise as for requests.
        """
        if key == _API_VERSIONS:
            return 0
        api = self._apis.get(key)
        return 1 if api is None or version >= api.response_flexible_from else 0

    # -- the user's own ---------------------------------------------------------------------------

    def _add(self, definitions: UserDefinitions) -> None:
        for name, definition in definitions.data.items():
            try:
                self._user_data[name] = _overlaid(definition, self._other("data", name))
            except KeyError:
                self._user_data[name] = definition.message
        added = {**definitions.responses, **definitions.requests}
        for key in added:
            self._add_message(key, "request", definitions.requests.get(key))
            self._add_message(key, "response", definitions.responses.get(key))
        for key, definition in added.items():
            self._apis[key] = self._changed(key, definition)
        self._apis = {key: self._apis[key] for key in sorted(self._apis)}
        _check_names(self._apis, added)

    def _add_message(self, key: int, kind: Kind, definition: UserMessage | None) -> None:
        """Keep a message of an API whose request or response, or both, a user defines."""
        api = self._apis.get(key)
        old = None if api is None else self._built_in(api, kind)
        if definition is None:
            if old is not None:
                self._user_messages[key, kind] = old
        else:
            self._user_messages[key, kind] = (
                definition.message if old is None else _overlaid(definition, old)
            )

    def _changed(self, key: int, added: UserMessage) -> Api:
        """Return the row of an API of which a user defines messages; ``added`` is one of them."""
        for kind in get_args(Kind):
            if (key, kind) not in self._user_messages:
                raise DefinitionError(
                    f"{added.file}: {added.message.name}: there is no {kind} with apiKey {key}"
                )
        request, response = self.message(key, "request"), self.message(key, "response")
        if request.valid_versions != response.valid_versions:
            raise DefinitionError(
                f"{added.file}: {added.message.name}: requests have versions "
                f"{request.valid_versions}, responses {response.valid_versions}"
            )
        name = added.message.name.removesuffix("Request").removesuffix("Response")
        old = self._apis.get(key)
        return Api(
            key=key,
            name=name,
            versions=request.valid_versions,
            request_flexible_from=_lowest(request.flexible_versions),
            response_flexible_from=_lowest(response.flexible_versions),
            first_release="-" if old is None else old.first_release,
            listeners=request.listeners,
            by_release=("-",) * len(RELEASES) if old is None else old.by_release,
            unstable=() if old is None else old.unstable,
        )

    # -- the built-in ones ------------------------------------------------------------------------

    def _built_in(self, api: Api, kind: Kind) -> MessageSpec:
        return _message_of(_read(_file_of(api)), api, kind)

    def _other(self, kind: str, name: str) -> MessageSpec:
        if not name.isidentifier():
            raise KeyError(name)
        try:
            return _read(f"{kind}_{name}.json")[name]
        except FileNotFoundError:
            raise KeyError(name) from None


def _file_of(api: Api) -> str:
    return f"{api.key:03d}_{api.name}.json"


def _message_of(messages: Mapping[str, MessageSpec], api: Api, kind: Kind) -> MessageSpec:
    return messages[api.name + ("Request" if kind == "request" else "Response")]


def _overlaid(added: UserMessage, old: MessageSpec) -> MessageSpec:
    from kanalyze.kafka.schema.overlay import Conflict, overlay

    try:
        return overlay(added.message, old)
    except Conflict as error:
        raise DefinitionError(f"{added.file}: {error}") from None


def _check_names(apis: dict[int, Api], added: dict[int, UserMessage]) -> None:
    """Refuse two APIs with the same name; at least one of them is the user's."""
    keys: dict[str, int] = {}
    for key, api in apis.items():
        other = keys.setdefault(api.name, key)
        if other != key:
            file, message = added.get(key) or added[other]
            raise DefinitionError(
                f"{file}: {message.name}: the APIs {other} and {key} have one name"
            )


def _lowest(flexible: VersionRange) -> int:
    return _NEVER if flexible.is_empty else flexible.lowest


@cache
def _read(file: str) -> Mapping[str, MessageSpec]:
    """Read a packaged definition file, once; reading is slow, and most commands need few files.

    The result is read-only: the whole process shares it.
    """
    from kanalyze.kafka.schema.loader import load_messages

    # Not by importlib.resources, which takes 10 ms to import. Its support of zip files is of no
    # use here: NumPy cannot be in one either.
    with opened(beside(__file__, "definitions", file)) as json_file:
        messages = load_messages(str(json_file.read(), "utf-8"), file)
    by_name = {message.name: message for message in messages}
    if len(by_name) != len(messages):
        raise DefinitionError(f"{file}: duplicate message")
    return MappingProxyType(by_name)


@cache
def _built_in_apis() -> Mapping[int, Api]:
    rows = [_api(row) for row in APIS.splitlines()]
    return MappingProxyType({api.key: api for api in rows})


def _api(row: str) -> Api:
    key, name, versions, request_from, response_from, first, *columns = row.split()
    *by_release, listeners, unstable = columns
    return Api(
        key=int(key),
        name=name,
        versions=VersionRange.parse(versions),
        request_flexible_from=_flexible_from(request_from),
        response_flexible_from=_flexible_from(response_from),
        first_release=first,
        listeners=tuple(listeners.split(",")),
        by_release=tuple(by_release),
        unstable=() if unstable == "-" else tuple(unstable.split(",")),
    )


def _flexible_from(text: str) -> int:
    return _NEVER if text == "never" else int(text)
