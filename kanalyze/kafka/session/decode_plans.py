"""How the messages of each API version are read.

In: the catalog, and which fields of a message are selected. Out: a :class:`DecodePlan` for a key
and a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from kanalyze.common.caches import remember

if TYPE_CHECKING:
    from kanalyze.kafka.codec.compiler import Decoders, Projection
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec as Definition

__all__ = ["DecodePlan", "DecodePlans", "FieldSelection", "MessageKind"]

_MAX_PLANS = 4096
"""Of each kind; keys and versions of APIs come from the wire."""

MessageKind = Literal["request", "response"]


class FieldSelection(Protocol):
    """Selects the fields of a message that are read."""

    def __call__(self, api_key: int, kind: MessageKind) -> Projection:
        """Return the selected fields of the API's requests or responses."""
        ...


class DecodePlan:
    """How the messages of one API version are read; made once."""

    def __init__(
        self,
        key: int,
        header_version: int,
        decode: BodyDecoder | None,
        version: int | None,
        definition: Definition | None,
        superseded: BodyDecoder | None = None,
        *,
        known: bool,
    ) -> None:
        self.key = key
        """API key and version in one number: see :func:`_key_of`."""
        self.header_version = header_version
        self.decode = decode
        self.version = version
        """The version that ``decode`` is for: the newest known one if the message's version is
        unknown."""
        self.known = known
        self.definition = definition
        """None for an unknown API."""
        self.superseded = superseded
        """Reads the layout that some releases gave the version."""

    @property
    def reads_all_that_is_needed(self) -> bool:
        """True if the bytes that ``decode`` reads of a message are all that will be read."""
        return self.known and self.superseded is None


class DecodePlans:
    """Makes plans when first needed, and keeps them."""

    def __init__(self, catalog: Catalog, decoders: Decoders, selection: FieldSelection) -> None:
        self._catalog = catalog
        self._decoders = decoders
        self._selection = selection
        self._requests: dict[int, DecodePlan] = {}
        self._responses: dict[int, DecodePlan] = {}
        self._last_request: DecodePlan | None = None
        self._last_response: DecodePlan | None = None
        """The next message mostly has the API and version of the last one."""
        self._known_apis: dict[int, bool] = {}

    def request(self, api_key: int, version: int) -> DecodePlan:
        """Return the plan for the requests of an API version."""
        key = _key_of(api_key, version)
        last = self._last_request
        if last is not None and last.key == key:
            return last
        plan = self._requests.get(key)
        if plan is None:
            plan = self._make(api_key, version, "request")
            remember(self._requests, key, plan, _MAX_PLANS)
        self._last_request = plan
        return plan

    def response(self, api_key: int, version: int) -> DecodePlan:
        """Return the plan for the responses of an API version."""
        key = _key_of(api_key, version)
        last = self._last_response
        if last is not None and last.key == key:
            return last
        plan = self._responses.get(key)
        if plan is None:
            plan = self._make(api_key, version, "response")
            remember(self._responses, key, plan, _MAX_PLANS)
        self._last_response = plan
        return plan

    def of_kind(self, api_key: int, version: int, kind: MessageKind) -> DecodePlan:
        """Return the plan for the requests or the responses of an API version."""
        if kind == "request":
            return self.request(api_key, version)
        return self.response(api_key, version)

    def older(
        self, api_key: int, version: int, kind: MessageKind, *, is_superseded: bool
    ) -> BodyDecoder:
        """Return what loads the bodies in states of the last format; see ``Decoders.older``."""
        selected = self._selection(api_key, kind)
        return self._decoders.older(api_key, kind, version, selected, is_superseded=is_superseded)

    def has_api(self, api_key: int) -> bool:
        """Return true if the API is known."""
        last = self._last_request
        if last is not None and last.key >> 16 == api_key:
            return last.definition is not None
        if api_key not in self._known_apis:
            self._known_apis[api_key] = self._catalog.api(api_key) is not None
        return self._known_apis[api_key]

    def has_version(self, api_key: int, version: int) -> bool:
        """Return true if the API is known in this version."""
        api = self._catalog.api(api_key)
        return api is not None and api.versions.lowest <= version <= api.versions.highest

    def _make(self, api_key: int, version: int, kind: MessageKind) -> DecodePlan:
        api, key = self._catalog.api(api_key), _key_of(api_key, version)
        if api is None:
            header_version = 1 if kind == "request" else 0
            return DecodePlan(key, header_version, None, None, None, known=False)
        definition = self._catalog.message(api_key, kind)
        if kind == "request":
            header_version = self._catalog.request_header_version(api_key, version)
        else:
            header_version = self._catalog.response_header_version(api_key, version)
        if version < api.versions.lowest:
            return DecodePlan(key, header_version, None, None, definition, known=False)
        read_as = min(version, api.versions.highest)
        selected = self._selection(api_key, kind)
        decode = self._decoders.get(api_key, kind, read_as, selected)
        superseded = self._decoders.superseded(api_key, kind, version, selected)
        known = read_as == version
        return DecodePlan(key, header_version, decode, read_as, definition, superseded, known=known)


def _key_of(api_key: int, version: int) -> int:
    """Return one number for both, which have 16 bits each."""
    return api_key * 65536 + (version & 0xFFFF)
