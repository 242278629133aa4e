"""The quality of a capture as lines: one count each.

In: a :class:`~kanalyze.tables.quality.CaptureQuality`. Out:
:class:`~kanalyze.spec.rows.anomalies.QualityFact`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.spec.rows.anomalies import QualityFact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kanalyze.tables.quality import CaptureQuality

__all__ = ["facts_of", "quality_facts"]


def quality_facts(quality: CaptureQuality) -> Iterator[QualityFact]:
    """Yield all counts of a capture's quality; a count by name gives one line per name."""
    yield from facts_of(quality.to_dict())


def facts_of(fields: Mapping[str, Any]) -> Iterator[QualityFact]:
    """Yield the counts in some fields of :meth:`.CaptureQuality.to_dict`."""
    for fact, value in fields.items():
        if fact in ("anomalies", "unread_ports"):
            field = "count" if fact == "anomalies" else "connections"
            for about, counts in value.items():
                yield QualityFact(fact, about, counts[field])
        elif isinstance(value, dict):
            for about, count in value.items():
                yield QualityFact(fact, about, count)
        elif isinstance(value, int):
            yield QualityFact(fact, None, value)
