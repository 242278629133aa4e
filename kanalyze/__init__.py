"""kanalyze: analyzes what goes over the wire between Kafka clients and brokers.

In: packet captures. Out: rows, reports and decoded messages. Begin reading with
``kanalyze/api/library.py`` for the library, ``kanalyze/cli/main.py`` for the command.

    >>> import kanalyze
    >>> for row in kanalyze.requests("broker.pcap", api="Fetch", slower_than="10ms"):
    ...     print(row.client_id, row.latency_ns)

``__all__`` lists the whole public library. Each name is loaded when it is first used.
"""

from __future__ import annotations

import os

from kanalyze.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import, and a signal may come before the command handles it
    from typing import Any

    from kanalyze.api.library import (
        Results,
        Rows,
        anomalies,
        anonymize,
        changes,
        client_metrics,
        compare,
        connections,
        decode,
        extract,
        groups,
        metadata,
        records,
        report,
        requests,
        save,
        sql,
    )
    from kanalyze.api.notebooks import Report
    from kanalyze.errors import CaptureError, DefinitionError, KanalyzeError, UsageError
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.records import RecordRow
    from kanalyze.spec.rows.requests import Row

__all__ = [
    "AnomalyRow",
    "CaptureError",
    "ConnectionRow",
    "DefinitionError",
    "KanalyzeError",
    "RecordRow",
    "Report",
    "Results",
    "Row",
    "Rows",
    "UsageError",
    "__version__",
    "anomalies",
    "anonymize",
    "changes",
    "client_metrics",
    "compare",
    "connections",
    "decode",
    "extract",
    "groups",
    "metadata",
    "records",
    "report",
    "requests",
    "save",
    "sql",
]

_HOMES = {
    "AnomalyRow": "kanalyze.spec.rows.anomalies",
    "CaptureError": "kanalyze.errors",
    "ConnectionRow": "kanalyze.spec.rows.connections",
    "DefinitionError": "kanalyze.errors",
    "KanalyzeError": "kanalyze.errors",
    "RecordRow": "kanalyze.spec.rows.records",
    "Report": "kanalyze.api.notebooks",
    "Row": "kanalyze.spec.rows.requests",
    "UsageError": "kanalyze.errors",
}
"""The module of each name that is not in ``kanalyze.api.library``."""

# The same test as compiled.is_pure_wanted(), without importing that module.
if os.environ.get("KANALYZE_PURE") == "1":
    from kanalyze.common.compiled import prefer_sources

    prefer_sources()


def __getattr__(name: str) -> Any:
    """Load a public name on first use: ``kanalyze --help`` need not import NumPy."""
    if name not in __all__:
        raise AttributeError(f"module 'kanalyze' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "kanalyze.api.library")), name)


def __dir__() -> list[str]:
    """Return all public names, loaded or not."""
    return list(__all__)
