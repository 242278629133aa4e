"""Stories: findings that one of them explains, with the cause first and its effects behind it.

In: findings, and by kind what may have caused it, as the comments of the queries say. Out: the
same findings in the order of a story: causes by the worst that they led to, each with its effects
behind it.

A line ``caused by NAME: CONCERNS`` in the comment of a query says that a finding of the kind
``NAME`` explains one of this kind if it began before, or was there for most of its time, and if
both have the same concerns (none: the time is enough; ``machine`` is the address of the broker,
whatever the port, or else of the client). With ``if CONCERN = VALUE`` behind it, that is so for
findings of this kind with such a concern; ``caused by NAME of CONCERN`` is so for causes that
concern nothing else. A finding has one cause, the most severe.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.queries.finding import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kanalyze.queries.finding import Finding

_RULE = re.compile(
    r"^caused by (\w+)(?: of (\w+))?(?:: ([a-z_ ]+?))?(?: if (\w+) = (\w+))?$", re.MULTILINE
)
_BEFORE_NS = 5_000_000_000
"""A cause may be seen this long after its first effect: clients notice at different times."""
_AFTER_NS = 60_000_000_000
"""An effect may begin this long after the last sign of its cause."""


class CauseRule(NamedTuple):
    """What may explain findings of a kind."""

    name: str
    """The kind of the cause."""
    same: tuple[str, ...]
    """The concerns that both have, and that are equal."""
    only: tuple[str, str] | None
    """A concern of the effect, and its value; None if there is no such condition."""
    of: str = ""
    """All that the cause concerns; empty if that does not matter."""


def cause_rules(description: str) -> tuple[CauseRule, ...]:
    """Return the rules in the comment of a query."""
    return tuple(
        CauseRule(name, tuple(same.split()), (concern, value) if concern else None, of)
        for name, of, same, concern, value in _RULE.findall(description)
    )


def in_stories(
    findings: Sequence[Finding], rules: Mapping[str, Collection[CauseRule]]
) -> list[Finding]:
    """Return findings in the order of their stories, each with its cause.

    Args:
        findings: findings, the most severe first.
        rules: by kind, what may have caused findings of that kind.
    """
    causes = _causes(findings, rules)
    effects: dict[int | None, list[int]] = {}
    for place in range(len(findings)):
        effects.setdefault(causes.get(place), []).append(place)
    order = list(_told(findings, effects, None))
    numbers = {place: number for number, place in enumerate(order, start=1)}
    return [
        findings[place]._replace(
            cause=None
            if (cause := causes.get(place)) is None
            else Cause(findings[cause].name, numbers[cause])
        )
        for place in order
    ]


def _causes(
    findings: Sequence[Finding], rules: Mapping[str, Collection[CauseRule]]
) -> dict[int, int]:
    """Return the place of each finding's cause, by the place of the finding."""
    places: dict[str, list[int]] = {}
    for place, finding in enumerate(findings):
        places.setdefault(finding.name, []).append(place)
    causes: dict[int, int] = {}
    for place, finding in enumerate(findings):
        candidates = sorted(
            other
            for rule in rules.get(finding.name, ())
            for other in places.get(rule.name, ())
            if other != place and _explains(findings[other], finding, rule)
        )
        for other in candidates:
            if place not in _ancestors(other, causes):
                causes[place] = other
                break
    return causes


def _ancestors(place: int | None, causes: Mapping[int, int]) -> Iterator[int]:
    """Yield a finding, its cause, the cause of that, and so on."""
    while place is not None:
        yield place
        place = causes.get(place)


def _explains(cause: Finding, effect: Finding, rule: CauseRule) -> bool:
    began_ns, ended_ns, effect_ns = cause.first_time_ns, cause.last_time_ns, effect.first_time_ns
    if began_ns is None or ended_ns is None or effect_ns is None:
        return False
    if rule.only is not None and _concern(effect, rule.only[0]) != rule.only[1]:
        return False
    if rule.of and set(cause.concerns) != {rule.of}:
        return False
    is_in_time = began_ns - _BEFORE_NS <= effect_ns <= ended_ns + _AFTER_NS
    # One request that was slow by chance may come long before the others.
    effect_ended_ns = effect.last_time_ns or effect_ns
    shared_ns = min(ended_ns, effect_ended_ns) - max(began_ns, effect_ns)
    is_mostly_meanwhile = 2 * shared_ns > effect_ended_ns - effect_ns
    return (is_in_time or is_mostly_meanwhile) and all(
        _are_same(cause, effect, name) for name in rule.same
    )


def _are_same(cause: Finding, effect: Finding, concern: str) -> bool:
    value = _concern(cause, concern)
    return value is not None and value == _concern(effect, concern)


def _concern(finding: Finding, name: str) -> Any:
    concerns = finding.concerns
    if name == "machine":
        return (
            concerns["broker"].rpartition(":")[0]
            if "broker" in concerns
            else concerns.get("client_ip")
        )
    return concerns.get(name)


def _told(
    findings: Sequence[Finding], effects: Mapping[int | None, Sequence[int]], cause: int | None
) -> Iterator[int]:
    """Yield the places of the effects of a cause, those of one kind together, and of theirs."""
    of_kind: dict[str, list[int]] = {}
    for place in effects.get(cause, ()):
        of_kind.setdefault(findings[place].name, []).append(place)
    worst = {
        name: max(_severity(findings, effects, place) for place in places)
        for name, places in of_kind.items()
    }
    for name in sorted(of_kind, key=lambda name: (-worst[name], name)):
        yield from of_kind[name]
        for place in of_kind[name]:
            yield from _told(findings, effects, place)


def _severity(
    findings: Sequence[Finding], effects: Mapping[int | None, Sequence[int]], place: int
) -> int:
    """Return the severity of a finding, or of the worst that it led to."""
    led_to = [_severity(findings, effects, effect) for effect in effects.get(place, ())]
    return max([findings[place].severity, *led_to])
