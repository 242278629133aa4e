"""A :class:`~kanalyze.tables.quality.CaptureQuality` with chosen counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterable

UNCHECKED_BATCHES = {"record_batches": 0, "checked_batches": 0, "wrong_batches": 0}
"""The counts where no CRC of a batch is looked at: tasks do not check them, one process does."""


def capture_quality(captures: Iterable[str] = (), **counts: Any) -> CaptureQuality:
    """Return one in which the attributes named in ``counts`` are set.

    ``lost_bytes`` and ``snapped_bytes`` are those of one anomaly.
    """
    made = CaptureQuality(captures)
    for kind in (AnomalyKind.LOST_BYTES, AnomalyKind.SNAPPED_BYTES):
        if kind.value in counts:
            made.count_anomaly(kind, counts.pop(kind.value))
    assert counts.keys() <= vars(made).keys()
    vars(made).update(counts)
    return made
