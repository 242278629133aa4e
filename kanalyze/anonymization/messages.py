"""Anonymizes messages: bytes in, bytes of the same length out.

In: a frame with its size prefix, its API, version and kind. Out: an :class:`AnonymousMessage`.

A body is walked by its definition (:class:`.FrameWalk`). Numbers, lengths and counts are copied;
every other field is replaced by its rule (:mod:`.rules`). If the definition does not fit the bytes,
the body is not copied: it is filled with bytes that do not fit the definition either.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kanalyze.anonymization.contents import member_data, token
from kanalyze.anonymization.records import RecordBlanker
from kanalyze.anonymization.rewriting import FrameWalk, WalkPlan, form_key
from kanalyze.anonymization.rules import WORDS, Rule, plan_of
from kanalyze.common.caches import remember
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.decoding.bodies import BodyReader
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.framing.frame import plain_body
from kanalyze.kafka.schema.schema_ast import Layout
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from kanalyze.anonymization.records import Ranges
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.kafka.schema.catalog import Catalog, Kind
    from kanalyze.kafka.schema.schema_ast import MessageSpec

_PREFIX_BYTES: Final = 4
_MAX_PLANS: Final = 4096
_MAX_KNOWN: Final = 1 << 16
"""Number of replacements of each rule that are cached."""
_LONGEST_REMEMBERED: Final = 512
_ENVELOPE: Final = 58
_RULES: Final = tuple(Rule)
_size: Final = Struct(">i").pack
_api: Callable[[bytes, int], tuple[int, int]] = Struct(">hh").unpack_from


class AnonymousMessage(NamedTuple):
    """A frame without names and contents."""

    data: bytearray
    """The frame with its size prefix, as long as the original."""
    records: list[tuple[int, int]]
    """Ranges of the records in it, without batch headers."""
    is_read: bool
    """Whether its body could be read; otherwise the whole body is blanked."""


class MessageAnonymizer:
    """Makes messages anonymous, one at a time."""

    def __init__(self, catalog: Catalog, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._reader = BodyReader(catalog, Decoders(catalog))
        self._steps: dict[tuple[str, int, int], array[int]] = {}
        self.plans: dict[int, WalkPlan | None] = {}
        """How to walk messages whose form does not depend on their bytes, by :func:`.form_key`."""
        self.records = RecordBlanker(stand_ins)
        """Blanks records fields."""
        self.known: list[dict[bytes, bytes]] = [{} for _ in _RULES]
        """By rule: replacements that were made before."""

    @property
    def blanked_batches(self) -> int:
        """Number of batches whose records were blanked as a whole."""
        return self.records.blanked_batches

    def message(
        self,
        data: bytes,
        api_key: int | None,
        api_version: int | None,
        kind: Kind,
        holes: Ranges = (),
        forwarded: tuple[int, int] | None = None,
    ) -> AnonymousMessage:
        """Return a frame without names and contents; raises nothing, whatever the bytes are.

        Args:
            data: the frame with its size prefix; bytes in ``holes`` are missing, and zero.
            api_key: key of the API; None for a response whose request is unknown.
            api_version: version in the request; None as above.
            kind: ``request`` or ``response``.
            holes: ranges of the frame that the capture lacks, in ascending order.
            forwarded: API key and version of the request inside, for the response of an Envelope.
        """
        walk = FrameWalk(self, data, holes, forwarded)
        plan, body = None, 0
        if api_key is not None and api_version is not None:
            plan, body = self._located(data, api_key, api_version, kind)
        is_read = walk.rewrite(plan, body, kind == "request")
        return AnonymousMessage(walk.out, walk.records, is_read)

    def forwarded(self, data: bytes) -> tuple[int, int] | None:
        """Return API key and version of the request inside an Envelope; None if there is none."""
        walk = FrameWalk(self, data, (), None)
        if len(data) < 2 * _PREFIX_BYTES:
            return None
        plan, body = self._located(data, _ENVELOPE, _api(data, _PREFIX_BYTES)[1], "request")
        walk.rewrite(plan, body, True)
        return walk.inner

    # -- where a body is, and what it has ---------------------------------------------------------

    def _located(
        self, data: bytes, api_key: int, api_version: int, kind: Kind
    ) -> tuple[WalkPlan | None, int]:
        """Return how to walk a frame, and where its body begins; None if it has no such header."""
        key = form_key(api_key, api_version, kind == "request")
        try:
            plan = self.plans[key]
        except KeyError:
            plan = self._new_plan(api_key, api_version, kind)
            remember(self.plans, key, plan, _MAX_PLANS)
        if plan is not None:
            body = plain_body(data, plan.head, plan.header_version)
            if body:
                return plan, body
        try:
            located = self._reader.locate_body(data, api_key, api_version, kind)
        except WireError:
            return None, 0
        steps = None
        if located.definition is not None and located.version is not None:
            steps = self._steps_of(located.definition, located.version)
        return WalkPlan(steps, located.header_version, located.known), located.body

    def _new_plan(self, api_key: int, api_version: int, kind: Kind) -> WalkPlan | None:
        usual = self._reader.usual_form(api_key, api_version, kind)
        if usual is None:
            return None
        steps = self._steps_of(usual.definition, usual.version)
        return WalkPlan(steps, usual.header_version, usual.known, usual.head)

    def _steps_of(self, definition: MessageSpec, version: int) -> array[int]:
        """Return the steps that walk a body."""
        key = definition.name, version, len(definition.releases)
        steps = self._steps.get(key)
        if steps is None:
            steps = plan_of(Layout(definition, version))
            remember(self._steps, key, steps, _MAX_PLANS)
        return steps

    # -- what replaces contents -------------------------------------------------------------------

    def content(self, rule: int, content: bytes) -> bytes:
        """Return the replacement for the content of a field with this rule."""
        replacement = self._replacement(_RULES[rule], content)
        if len(content) <= _LONGEST_REMEMBERED:
            remember(self.known[rule], content, replacement, _MAX_KNOWN)
        return replacement

    def _replacement(self, rule: Rule, content: bytes) -> bytes:
        stand_ins = self._stand_ins
        if rule is Rule.NAME:
            return stand_ins.name(content)
        if rule is Rule.WORD:
            return stand_ins.name_but(content, WORDS)
        if rule is Rule.HOST:
            return stand_ins.host(content)
        if rule is Rule.UUID:
            return stand_ins.uuid(content)
        if rule is Rule.TOKEN:
            return token(content, stand_ins)
        return member_data(content, stand_ins, is_subscription=rule is Rule.SUBSCRIPTION)

    def embedded(
        self, content: bytes, forwarded: tuple[int, int] | None
    ) -> tuple[bytes | bytearray, tuple[int, int] | None]:
        """Return the anonymized message inside an Envelope, which has no size prefix.

        Also returns its API key and version if it is a request.

        Args:
            content: the message.
            forwarded: API key and version of the request, for a response; None for a request.
        """
        kind: Kind = "response"
        ids = forwarded
        if ids is None:
            if len(content) < _PREFIX_BYTES:
                return bytes(len(content)), None
            kind, ids = "request", _api(content, 0)
        inner = ids if kind == "request" else None
        if ids[0] == _ENVELOPE:
            return bytes(len(content)), inner
        frame = _size(len(content)) + content
        return self.message(frame, *ids, kind).data[_PREFIX_BYTES:], inner
