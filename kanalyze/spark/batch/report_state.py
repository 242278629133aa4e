"""The state of a report as JSON values, so that a later run can add to it.

In: statistics and quality. Out: JSON values, and from them equal statistics and quality. Must not
know: where the values are stored.

The values are checked when they are loaded: each must have the type of its attribute.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.kafka.session.connection_summary import UnknownTotal
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.statistics.bounded_counters import BoundedCounters, SmallestTexts
from kanalyze.statistics.quantile_sketch import QuantileSketch
from kanalyze.statistics.summary import KEY_LIMIT, Statistics
from kanalyze.statistics.time_series import ThroughputSeries
from kanalyze.statistics.totals import (
    MAX_TEXTS,
    ApiTotals,
    ClientTotals,
    ConsumerGroupTotals,
    EndpointTotals,
    ErrorTotals,
    RecordTotals,
    SlowestRequests,
    TopicTotals,
    WaitedTotals,
)
from kanalyze.tables.quality import AnomalyTotal, CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ReportStateError", "load_quality", "load_statistics", "save_quality", "save_statistics"]


class ReportStateError(KanalyzeError):
    """JSON values that are not the state of a report."""


class _Codec(NamedTuple):
    """How values of one type are saved as JSON values, and loaded."""

    save: Callable[[Any], Any]
    load: Callable[[Any], Any]
    """Raises one of :data:`_BAD` for JSON values of another type."""


_BAD: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


def save_statistics(statistics: Statistics) -> Any:
    """Return statistics as JSON values."""
    return _STATISTICS.save(statistics)


def load_statistics(json_value: Any) -> Statistics:
    """Undo :func:`save_statistics`; raises ReportStateError."""
    statistics: Statistics = _read(_CHECKED_STATISTICS, json_value)
    return statistics


def save_quality(quality: CaptureQuality) -> Any:
    """Return quality as JSON values."""
    return _QUALITY.save(quality)


def load_quality(json_value: Any) -> CaptureQuality:
    """Undo :func:`save_quality`; raises ReportStateError."""
    quality: CaptureQuality = _read(_QUALITY, json_value)
    return quality


def _read(codec: _Codec, json_value: Any) -> Any:
    try:
        return codec.load(json_value)
    except _BAD as error:
        raise ReportStateError("the state of the report is damaged") from error


# -- single values --------------------------------------------------------------------------------


def _of_type(kind: type) -> _Codec:
    def check(json_value: Any) -> Any:
        if type(json_value) is not kind:
            raise TypeError(f"{type(json_value).__name__} for {kind.__name__}")
        return json_value

    return _Codec(check, check)


_INT: Final = _of_type(int)
_TEXT: Final = _of_type(str)
_FLAG: Final = _of_type(bool)


def _maybe(codec: _Codec) -> _Codec:
    return _Codec(
        lambda value: None if value is None else codec.save(value),
        lambda json_value: None if json_value is None else codec.load(json_value),
    )


def _list(codec: _Codec) -> _Codec:
    return _Codec(
        lambda value: [codec.save(each) for each in value],
        lambda json_value: [codec.load(each) for each in json_value],
    )


def _tuple(*codecs: _Codec) -> _Codec:
    def save(value: Any) -> Any:
        return [codec.save(each) for codec, each in zip(codecs, value, strict=True)]

    def load(json_value: Any) -> Any:
        return tuple(codec.load(each) for codec, each in zip(codecs, json_value, strict=True))

    return _Codec(save, load)


def _dict(key: _Codec, item: _Codec, kind: Callable[..., Any] = dict) -> _Codec:
    """A list of pairs, as keys need not be texts."""
    pairs = _list(_tuple(key, item))
    return _Codec(
        lambda value: pairs.save(value.items()),
        lambda json_value: kind(dict(pairs.load(json_value))),
    )


def _json_value(json_value: Any) -> Any:
    """Check that a value is one of JSON without floats."""
    if isinstance(json_value, list):
        return [_json_value(each) for each in json_value]
    if isinstance(json_value, dict):
        return {_TEXT.load(name): _json_value(each) for name, each in json_value.items()}
    if json_value is None or isinstance(json_value, str | int):
        return json_value
    raise TypeError(type(json_value).__name__)


def _key_part(json_value: Any) -> Any:
    if json_value is None or type(json_value) in (str, int):
        return json_value
    raise TypeError(type(json_value).__name__)


_INTS: Final = _list(_INT)
_ANYTHING: Final = _Codec(_json_value, _json_value)
_KEY: Final = _Codec(list, lambda json_value: tuple(_key_part(part) for part in json_value))


# -- objects --------------------------------------------------------------------------------------


def _object(make: Callable[[], Any], **attributes: _Codec) -> _Codec:
    def save(value: Any) -> Any:
        return [codec.save(getattr(value, name)) for name, codec in attributes.items()]

    def load(json_value: Any) -> Any:
        made = make()
        for (name, codec), each in zip(attributes.items(), json_value, strict=True):
            setattr(made, name, codec.load(each))
        return made

    return _Codec(save, load)


def _state(make: Callable[[], Any], *codecs: _Codec) -> _Codec:
    """The codec of a class with ``save_state`` and ``load_state``, which exchange a tuple."""
    state = _tuple(*codecs)

    def load(json_value: Any) -> Any:
        made = make()
        made.load_state(state.load(json_value))
        return made

    return _Codec(lambda value: state.save(value.save_state()), load)


def _by_key(make: Callable[[], Any], codec: _Codec) -> _Codec:
    return _state(lambda: BoundedCounters(make, KEY_LIMIT), _dict(_KEY, codec), _maybe(codec))


_SKETCH: Final = _state(QuantileSketch, _INT, _INT, _maybe(_INT), _maybe(_INT), _INTS, _INT, _INTS)
_TEXTS: Final = _state(lambda: SmallestTexts(MAX_TEXTS), _list(_TEXT), _FLAG)
_RECORDS: Final = _object(
    RecordTotals,
    count=_INT,
    bytes=_INT,
    unknown=_INT,
    refused=_INT,
    acknowledged=_INT,
    acknowledged_bytes=_INT,
    unanswered=_INT,
    one_way=_INT,
)
_WAITED: Final = _object(
    WaitedTotals,
    requests=_INT,
    errors=_INT,
    request_bytes=_INT,
    response_bytes=_INT,
    record_count=_INT,
    latency=_SKETCH,
    total_time=_SKETCH,
)
_COUNTER: Final = _dict(_TEXT, _INT, Counter)
_API: Final = _object(
    ApiTotals,
    versions=_COUNTER,
    statuses=_COUNTER,
    requests=_INT,
    responses=_INT,
    request_bytes=_INT,
    response_bytes=_INT,
    throttled=_INT,
    throttle_time_ms=_INT,
    records=_RECORDS,
    carries_records=_FLAG,
    latency=_SKETCH,
    total_time=_SKETCH,
    waited=_WAITED,
)
_PARTY: Final = _object(
    EndpointTotals,
    requests=_INT,
    errors=_INT,
    request_bytes=_INT,
    response_bytes=_INT,
    latency=_SKETCH,
)
_CLIENT: Final = _object(ClientTotals, party=_PARTY, ips=_TEXTS, software=_TEXTS, principals=_TEXTS)
_TOPIC: Final = _object(
    TopicTotals,
    produce_requests=_INT,
    produced=_RECORDS,
    fetch_requests=_INT,
    fetched=_RECORDS,
    errors=_INT,
)
_GROUP: Final = _object(ConsumerGroupTotals, requests=_INT, joins=_INT, errors=_INT)
_ERROR: Final = _object(
    ErrorTotals, count=_INT, first_time_ns=_maybe(_INT), last_time_ns=_maybe(_INT)
)
_SERIES: Final = _state(ThroughputSeries, _INT, _INT, _INT, _list(_INTS))
_PLACE: Final = _tuple(_INT, _INT, _INT, _TEXT, _TEXT, _INT, _INT, _TEXT)
"""The sort key of the slowest requests."""
_SLOWEST: Final = _state(SlowestRequests, _list(_tuple(_PLACE, _ANYTHING)))
_STATISTICS: Final = _state(
    Statistics,
    _by_key(ApiTotals, _API),
    _by_key(ErrorTotals, _ERROR),
    _by_key(ClientTotals, _CLIENT),
    _by_key(TopicTotals, _TOPIC),
    _by_key(ConsumerGroupTotals, _GROUP),
    _by_key(EndpointTotals, _PARTY),
    _SERIES,
    _SLOWEST,
    _RECORDS,
    _RECORDS,
)


def _checked_statistics(json_value: Any) -> Statistics:
    made: Statistics = _STATISTICS.load(json_value)
    # Parts may be of the right types and yet not fit together.
    made.summary(CaptureQuality())
    return made


_CHECKED_STATISTICS: Final = _Codec(_STATISTICS.save, _checked_statistics)
_COUNTS: Final = _dict(_TEXT, _INT)
_KINDS_BY_NAME: Final = {kind.value: kind for kind in AnomalyKind}
_KIND: Final = _Codec(lambda kind: kind.value, lambda json_value: _KINDS_BY_NAME[json_value])
_OTHER_CODECS: Final = {
    "captures": _list(_TEXT),
    "first_time_ns": _maybe(_INT),
    "last_time_ns": _maybe(_INT),
    "dropped_packets": _maybe(_INT),
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
}
_QUALITY: Final = _object(
    CaptureQuality, **{name: _OTHER_CODECS.get(name, _INT) for name in vars(CaptureQuality())}
)
