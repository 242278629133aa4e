"""kanalyze: what goes over the wire between Kafka clients and brokers.

    >>> import kanalyze
    >>> for row in kanalyze.requests("broker.pcap", api="Fetch", slower_than="10ms"):
    ...     print(row.client_id, row.latency_ns)

The names below are all there is to the library; each is loaded when it is first used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kanalyze.version import __version__

if TYPE_CHECKING:
    from kanalyze.analysis.anomalies import AnomalyRow
    from kanalyze.analysis.connections import ConnectionRow
    from kanalyze.analysis.record_row import RecordRow
    from kanalyze.analysis.row import Row
    from kanalyze.errors import CaptureError, DefinitionError, KanalyzeError, UsageError
    from kanalyze.library import (
        Results,
        Rows,
        anomalies,
        connections,
        decode,
        records,
        report,
        requests,
    )

__all__ = [
    "AnomalyRow",
    "CaptureError",
    "ConnectionRow",
    "DefinitionError",
    "KanalyzeError",
    "RecordRow",
    "Results",
    "Row",
    "Rows",
    "UsageError",
    "__version__",
    "anomalies",
    "connections",
    "decode",
    "records",
    "report",
    "requests",
]

_HOMES = {
    "AnomalyRow": "kanalyze.analysis.anomalies",
    "CaptureError": "kanalyze.errors",
    "ConnectionRow": "kanalyze.analysis.connections",
    "DefinitionError": "kanalyze.errors",
    "KanalyzeError": "kanalyze.errors",
    "RecordRow": "kanalyze.analysis.record_row",
    "Row": "kanalyze.analysis.row",
    "UsageError": "kanalyze.errors",
}
"""Where names are from; the others are from the library."""

if os.environ.get("KANALYZE_PURE") == "1":  # compiled.is_pure_wanted, not loaded for nothing
    from kanalyze.compiled import prefer_sources

    prefer_sources()


def __getattr__(name: str) -> Any:
    """Load a public name on first use: ``kanalyze --help`` need not import NumPy."""
    if name not in __all__:
        raise AttributeError(f"module 'kanalyze' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "kanalyze.library")), name)


def __dir__() -> list[str]:
    """Return the public names, also those that are not loaded yet."""
    return list(__all__)
