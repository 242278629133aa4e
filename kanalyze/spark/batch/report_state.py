"""What a report is made of as plain values that JSON has, and back: sums that go on in a later run.

In: statistics and quality. Out: plain values; and of plain values new statistics and quality, to
which more can be added. Must not know: where the values are kept. It knows what others keep to
themselves.

Values may come from anywhere: nothing is made of them but the classes below, and what is not of
the type that an attribute has is refused.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.kafka.session.connection_summary import UnknownTotal
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.statistics.bounded_counters import BoundedCounters, SmallestTexts
from kanalyze.statistics.quantile_sketch import QuantileSketch
from kanalyze.statistics.summary import Statistics
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

__all__ = ["SumsError", "plain_quality", "plain_statistics", "quality_of", "statistics_of"]


class SumsError(KanalyzeError):
    """Values that no sums can be made of."""


class _Form(NamedTuple):
    """How values of one type are written and read."""

    plain: Callable[[Any], Any]
    value: Callable[[Any], Any]
    """Raises one of :data:`_BAD` for what is not plain values of the type."""


_BAD: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


def plain_statistics(statistics: Statistics) -> Any:
    """Return statistics as plain values."""
    statistics._add_pending()
    return _STATISTICS.plain(statistics)


def statistics_of(plain: Any) -> Statistics:
    """Undo :func:`plain_statistics`; raises SumsError."""
    statistics: Statistics = _read(_SOUND_STATISTICS, plain)
    return statistics


def plain_quality(quality: CaptureQuality) -> Any:
    """Return quality as plain values."""
    return _QUALITY.plain(quality)


def quality_of(plain: Any) -> CaptureQuality:
    """Undo :func:`plain_quality`; raises SumsError."""
    quality: CaptureQuality = _read(_QUALITY, plain)
    return quality


def _read(form: _Form, plain: Any) -> Any:
    try:
        return form.value(plain)
    except _BAD as error:
        raise SumsError("the sums are damaged") from error


# -- single values --------------------------------------------------------------------------------


def _of_type(kind: type) -> _Form:
    def check(plain: Any) -> Any:
        if type(plain) is not kind:
            raise TypeError(f"{type(plain).__name__} for {kind.__name__}")
        return plain

    return _Form(check, check)


_INT: Final = _of_type(int)
_TEXT: Final = _of_type(str)
_FLAG: Final = _of_type(bool)


def _maybe(form: _Form) -> _Form:
    return _Form(
        lambda value: None if value is None else form.plain(value),
        lambda plain: None if plain is None else form.value(plain),
    )


def _list(form: _Form) -> _Form:
    return _Form(
        lambda value: [form.plain(each) for each in value],
        lambda plain: [form.value(each) for each in plain],
    )


def _tuple(*forms: _Form) -> _Form:
    def plain(value: Any) -> Any:
        return [form.plain(each) for form, each in zip(forms, value, strict=True)]

    def value(plain: Any) -> Any:
        return tuple(form.value(each) for form, each in zip(forms, plain, strict=True))

    return _Form(plain, value)


def _dict(key: _Form, held: _Form, kind: Callable[..., Any] = dict) -> _Form:
    """Of pairs: keys need not be texts."""
    pairs = _list(_tuple(key, held))
    return _Form(
        lambda value: pairs.plain(value.items()), lambda plain: kind(dict(pairs.value(plain)))
    )


def _json_value(plain: Any) -> Any:
    """Let pass what has been JSON, but floats."""
    if isinstance(plain, list):
        return [_json_value(each) for each in plain]
    if isinstance(plain, dict):
        return {_TEXT.value(name): _json_value(each) for name, each in plain.items()}
    if plain is None or isinstance(plain, str | int):
        return plain
    raise TypeError(type(plain).__name__)


def _key_part(plain: Any) -> Any:
    if plain is None or type(plain) in (str, int):
        return plain
    raise TypeError(type(plain).__name__)


def _int64s(value: Any) -> array[int]:
    return array("q", _INTS.value(value))


_INTS: Final = _list(_INT)
_ANYTHING: Final = _Form(_json_value, _json_value)
_ARRAY: Final = _Form(lambda value: value.tolist(), _int64s)
_VECTOR: Final = _Form(
    lambda value: value.tolist(), lambda plain: np.array(_int64s(plain), dtype=np.int64)
)
_KEY: Final = _Form(list, lambda plain: tuple(_key_part(part) for part in plain))


def _series_sums(plain: Any) -> Any:
    sums = np.array([_int64s(row) for row in plain], dtype=np.int64)
    if sums.shape != ThroughputSeries()._sums.shape:
        raise ValueError(f"{sums.shape} sums")
    return sums


# -- objects --------------------------------------------------------------------------------------


def _object(make: Callable[[], Any], **attributes: _Form) -> _Form:
    def plain(value: Any) -> Any:
        return [form.plain(getattr(value, name)) for name, form in attributes.items()]

    def value(plain: Any) -> Any:
        made = make()
        for (name, form), each in zip(attributes.items(), plain, strict=True):
            setattr(made, name, form.value(each))
        return made

    return _Form(plain, value)


def _keyed(name: str, form: _Form) -> _Form:
    """Of an attribute of statistics, which knows how many keys stand alone."""

    def value(plain: Any) -> Any:
        made: BoundedCounters[Any] = getattr(Statistics(), name)
        items, others = plain
        read = _dict(_KEY, form).value(items)
        if len(read) > made._limit:
            raise ValueError(f"{len(read)} keys")
        made._items, made.others = read, _maybe(form).value(others)
        return made

    return _Form(
        lambda keyed: [
            _dict(_KEY, form).plain(keyed._items),
            _maybe(form).plain(keyed.others),
        ],
        value,
    )


_SKETCH: Final = _object(
    QuantileSketch,
    count=_INT,
    sum=_INT,
    min=_maybe(_INT),
    max=_maybe(_INT),
    _pending=_ARRAY,
    _lowest=_INT,
    _buckets=_VECTOR,
)
_TEXTS: Final = _object(
    lambda: SmallestTexts(MAX_TEXTS),
    _texts=_Form(sorted, lambda plain: set(_list(_TEXT).value(plain))),
    more=_FLAG,
)
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
_SERIES: Final = _object(
    ThroughputSeries,
    _doublings=_INT,
    _first=_INT,
    _last=_INT,
    _sums=_Form(lambda value: value.tolist(), _series_sums),
)
_PLACE: Final = _tuple(_INT, _INT, _INT, _TEXT, _TEXT, _INT, _INT, _TEXT)
"""What the slowest requests are sorted by."""
_SLOWEST: Final = _object(SlowestRequests, _entries=_list(_tuple(_PLACE, _ANYTHING)))
_STATISTICS: Final = _object(
    Statistics,
    _apis=_keyed("_apis", _API),
    _errors=_keyed("_errors", _ERROR),
    _clients=_keyed("_clients", _CLIENT),
    _topics=_keyed("_topics", _TOPIC),
    _groups=_keyed("_groups", _GROUP),
    _brokers=_keyed("_brokers", _PARTY),
    _series=_SERIES,
    _slowest=_SLOWEST,
    _produced=_RECORDS,
    _fetched=_RECORDS,
)


def _sound_statistics(plain: Any) -> Statistics:
    made: Statistics = _STATISTICS.value(plain)
    # Parts may be of the right types and yet not fit together.
    made.summary(CaptureQuality())
    return made


_SOUND_STATISTICS: Final = _Form(_STATISTICS.plain, _sound_statistics)
_COUNTS: Final = _dict(_TEXT, _INT)
_KINDS_BY_NAME: Final = {kind.value: kind for kind in AnomalyKind}
_KIND: Final = _Form(lambda kind: kind.value, lambda plain: _KINDS_BY_NAME[plain])
_OTHER_FORMS: Final = {
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
    CaptureQuality, **{name: _OTHER_FORMS.get(name, _INT) for name in vars(CaptureQuality())}
)
