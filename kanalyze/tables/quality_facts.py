"""The quality of a capture as lines: one count each.

In: a :class:`~kanalyze.tables.quality.CaptureQuality`. Out: :class:`QualityFact`, and its columns.
"""

# No "from __future__ import annotations": see kanalyze.tables.row.

from typing import TYPE_CHECKING, Annotated, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.tables.row import Column, Meaning, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kanalyze.tables.quality import CaptureQuality

__all__ = ["QUALITY", "QUALITY_COLUMNS", "QualityFact", "facts_of", "quality_facts"]

QUALITY = "capture_quality"
"""The name of the table."""


class QualityFact(NamedTuple):
    """One count of the report's ``quality``."""

    fact: Annotated[str, Meaning("string", "the count, named as in the report's quality")]
    about: Annotated[
        str | None,
        Meaning(
            "string",
            "what it is counted by: the kind of anomaly, the address, the protocol; null if none",
            nullable=True,
        ),
    ]
    value: Annotated[int, Meaning("int64", "the number; an unknown number has no line")]


QUALITY_COLUMNS: tuple[Column, ...] = columns_of(QualityFact)
"""The columns of :class:`QualityFact`, in the order of its fields."""


def quality_facts(quality: "CaptureQuality") -> "Iterator[QualityFact]":
    """Yield all counts of a capture's quality; a count by name gives one line per name."""
    yield from facts_of(quality.to_dict())


def facts_of(fields: "Mapping[str, Any]") -> "Iterator[QualityFact]":
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
