"""A :class:`~kanalyze.tables.quality.CaptureQuality` with chosen counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["capture_quality"]


def capture_quality(captures: Iterable[str] = (), **counts: Any) -> CaptureQuality:
    """Return one in which the attributes named in ``counts`` are set."""
    made = CaptureQuality(captures)
    assert counts.keys() <= vars(made).keys()
    vars(made).update(counts)
    return made
