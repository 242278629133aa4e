"""The quality of captures as JSON values, so that a later run can add to it.

In: quality. Out: JSON values, and from them equal quality.

The values are checked when they are loaded: each must have the type of its attribute. Counts have
their names, so that later versions may have more, which are 0 in what earlier ones have saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.kafka.session.connection_summary import UnknownTotal
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.tables.quality import AnomalyTotal, CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["QualityStateError", "load_quality", "save_quality"]


class QualityStateError(KanalyzeError):
    """JSON values that are not the quality of captures."""


class _Codec(NamedTuple):
    """How values of one type are saved as JSON values, and loaded."""

    save: Callable[[Any], Any]
    load: Callable[[Any], Any]
    """Raises one of :data:`_BAD` for invalid JSON values."""


_LOAD_ERRORS: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


def save_quality(quality: CaptureQuality) -> Any:
    """Return quality as JSON values."""
    return _QUALITY.save(quality)


def load_quality(json_value: Any) -> CaptureQuality:
    """Undo :func:`save_quality`; raises QualityStateError."""
    try:
        quality: CaptureQuality = _QUALITY.load(json_value)
    except (*_LOAD_ERRORS, AttributeError) as error:
        raise QualityStateError("the quality of the captures is damaged") from error
    return quality


# -- single values --------------------------------------------------------------------------------


def _of_type(kind: type) -> _Codec:
    def check(json_value: Any) -> Any:
        if type(json_value) is not kind:
            raise TypeError(f"{type(json_value).__name__} for {kind.__name__}")
        return json_value

    return _Codec(check, check)


_INT: Final = _of_type(int)
_TEXT: Final = _of_type(str)


def _optional(codec: _Codec) -> _Codec:
    return _Codec(
        lambda value: None if value is None else codec.save(value),
        lambda json_value: None if json_value is None else codec.load(json_value),
    )


def _list(codec: _Codec) -> _Codec:
    return _Codec(
        lambda value: [codec.save(item) for item in value],
        lambda json_value: [codec.load(item) for item in json_value],
    )


def _tuple(*codecs: _Codec) -> _Codec:
    def save(value: Any) -> Any:
        return [codec.save(item) for codec, item in zip(codecs, value, strict=True)]

    def load(json_value: Any) -> Any:
        return tuple(codec.load(item) for codec, item in zip(codecs, json_value, strict=True))

    return _Codec(save, load)


def _dict(key: _Codec, item: _Codec) -> _Codec:
    """Save a dict as a list of pairs, because its keys need not be texts."""
    pairs = _list(_tuple(key, item))
    return _Codec(
        lambda value: pairs.save(value.items()),
        lambda json_value: dict(pairs.load(json_value)),
    )


# -- objects --------------------------------------------------------------------------------------


def _object(make: Callable[[], Any], **attributes: _Codec) -> _Codec:
    """Save an object as the list of its attributes."""

    def save(value: Any) -> Any:
        return [codec.save(getattr(value, name)) for name, codec in attributes.items()]

    def load(json_value: Any) -> Any:
        instance = make()
        for (name, codec), item in zip(attributes.items(), json_value, strict=True):
            setattr(instance, name, codec.load(item))
        return instance

    return _Codec(save, load)


_COUNTS: Final = _dict(_TEXT, _INT)
_KINDS_BY_NAME: Final = {kind.value: kind for kind in AnomalyKind}
_KIND: Final = _Codec(lambda kind: kind.value, lambda json_value: _KINDS_BY_NAME[json_value])
_OTHER_CODECS: Final = {
    "captures": _list(_TEXT),
    "first_time_ns": _optional(_INT),
    "last_time_ns": _optional(_INT),
    "dropped_packets": _optional(_INT),
    "other_packets": _COUNTS,
    "tunnels": _COUNTS,
    "other_protocols": _COUNTS,
    "refused_by": _COUNTS,
    "unanswered_by": _COUNTS,
    "interfaces": _COUNTS,
    "comments": _COUNTS,
    "kafka_ports": _COUNTS,
    "unknown_ports": _dict(
        _TEXT, _object(UnknownTotal, connections=_INT, packets=_INT, bytes=_INT)
    ),
    "anomalies": _dict(_KIND, _object(AnomalyTotal, count=_INT, bytes=_INT)),
    "tls_outcomes": _COUNTS,
}
_CODECS: Final = {name: _OTHER_CODECS.get(name, _INT) for name in vars(CaptureQuality())}
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


def _save_quality(quality: CaptureQuality) -> dict[str, Any]:
    return {name: codec.save(getattr(quality, name)) for name, codec in _CODECS.items()}


def _load_quality(json_value: Any) -> CaptureQuality:
    if isinstance(json_value, list):
        json_value = dict(zip(_NAMES_ONCE, json_value, strict=True))
    elif not json_value.keys() >= frozenset(_NAMES_ONCE):
        raise ValueError("counts that every version has are missing")
    quality = CaptureQuality()
    for name, item in json_value.items():
        setattr(quality, name, _CODECS[name].load(item))
    return quality


_QUALITY: Final = _Codec(_save_quality, _load_quality)
