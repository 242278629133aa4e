"""The quality of captures as JSON values, so that a later run can add to it.

In: quality. Out: JSON values, and from them equal quality.

Counts have their names, so that later versions may have more, which are 0 in what earlier ones have
saved.
"""

from __future__ import annotations

from typing import Any, Final

from kanalyze.errors import KanalyzeError
from kanalyze.tables.quality import CaptureQuality

__all__ = ["QualityStateError", "load_quality", "save_quality"]


class QualityStateError(KanalyzeError):
    """JSON values that are not the quality of captures."""


_LOAD_ERRORS: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


def save_quality(quality: CaptureQuality) -> Any:
    """Return quality as JSON values."""
    return quality.to_values()


def load_quality(json_value: Any) -> CaptureQuality:
    """Undo :func:`save_quality`; raises QualityStateError."""
    try:
        if isinstance(json_value, list):
            json_value = dict(zip(_NAMES_ONCE, json_value, strict=True))
        names = json_value.keys() - _NO_COUNTS
        if not _COUNTS_ONCE <= names <= vars(CaptureQuality()).keys():
            raise QualityStateError(_DAMAGED)
        return CaptureQuality.from_values(json_value)
    except (*_LOAD_ERRORS, AttributeError) as error:
        raise QualityStateError(_DAMAGED) from error


_DAMAGED: Final = "the quality of the captures is damaged"
_NAMES_ONCE: Final = (
    *("captures", "packets", "captured_bytes", "wire_bytes", "first_time_ns", "last_time_ns"),
    *("dropped_packets", "interfaces", "comments", "packet_comments", "tcp_packets"),
    *("not_tcp_packets", "unreadable_packets", "other_packets", "tunnels", "fragment_packets"),
    *("lost_datagrams", "connections", "kafka_connections", "tls_connections"),
    *("other_connections", "other_protocols", "kafka_ports", "unknown_ports", "payload_bytes"),
    *("kafka_bytes", "decoded_bytes", "undecoded_bytes", "skipped_bytes", "lost_bytes"),
    *("snapped_bytes", "retransmitted_bytes", "duplicate_bytes", "network_duplicate_bytes"),
    *("refused_connections", "refused_by", "unanswered_connections", "unanswered_by"),
    *("out_of_order_packets", "late_packets", "late_bytes", "out_of_window_packets"),
    *("out_of_window_bytes", "before_start_bytes", "anomalies"),
)
"""The names of counts in checkpoints that have a list of them, without names."""
_NO_COUNTS: Final = frozenset(("lost_bytes", "snapped_bytes"))
"""Those that are not counted any more: they are the bytes of anomalies."""
_COUNTS_ONCE: Final = frozenset(_NAMES_ONCE) - _NO_COUNTS
