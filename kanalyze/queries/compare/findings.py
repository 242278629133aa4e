"""Findings of one side of a comparison that the other side does not have.

In: the findings of two sides, as in a report. Out: findings as in a report.

Two findings are the same if they are of one kind and concern the same client, topic and so on,
whatever their figures are. Addresses of clients do not count where a client id is known, and
UUIDs in client ids are ``*``: both change when a client is started again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.queries.findings import MAX_OF_A_KIND

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def without_uuids(client_id: str) -> str:
    """Return a client id with ``*`` for each UUID in it."""
    return _UUID.sub("*", client_id)


class SideFindings(NamedTuple):
    """What was found on a side."""

    findings: Sequence[Mapping[str, Any]] = ()
    """As in a report."""
    not_searched: Collection[str] = ()
    """The kinds that were not searched for."""


def only_in(present: SideFindings | None, elsewhere: SideFindings | None) -> list[dict[str, Any]]:
    """Return the findings of ``present`` that are not ``elsewhere``.

    Nothing if one of them is unknown. A kind is left out if ``elsewhere`` was not searched for it,
    or if more were found there than a report lists.
    """
    if present is None or elsewhere is None:
        return []
    counts = Counter(finding["name"] for finding in elsewhere.findings)
    known = set(map(_identity, elsewhere.findings))
    unknown = {name for name, count in counts.items() if count >= MAX_OF_A_KIND}
    unknown.update(elsewhere.not_searched)
    kept: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}
    for number, finding in enumerate(present.findings, start=1):
        if finding["name"] not in unknown and _identity(finding) not in known:
            cause = finding["cause"]
            is_kept = cause is not None and cause["number"] in numbers
            new = {**cause, "number": numbers[cause["number"]]} if is_kept else None
            kept.append({**finding, "cause": new})
            numbers[number] = len(kept)
    return kept


def _identity(finding: Mapping[str, Any]) -> tuple[str, frozenset[tuple[str, str]]]:
    concerns = dict(finding["concerns"])
    if concerns.get("client_id") is not None:
        concerns.pop("client_ip", None)
        concerns["client_id"] = without_uuids(concerns["client_id"])
    return finding["name"], frozenset(concerns.items())
