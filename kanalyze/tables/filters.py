"""Selects rows: one filter for all commands.

In: conditions as text; rows, or columns of rows. Out: whether rows match.

A row matches if it meets every condition. If a condition has several values, one of them must
match. A null never meets a condition (a null client id, for example).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import pairwise
from operator import ge, lt
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import similar
from kanalyze.common.times import (
    NS_PER_DAY,
    format_time,
    parse_duration_ns,
    parse_relative_ns,
    parse_time_ns,
    parse_time_of_day_ns,
    split_zone,
)
from kanalyze.common.zones import zone_of
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.error_codes import error_code, error_name
from kanalyze.kafka.schema.error_table import ERRORS
from kanalyze.spec.filters import BY_NAMES, FILTERS
from kanalyze.spec.rows.requests import COLUMNS, Status
from kanalyze.tables.columns.block import Lists, RowBlock

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.names import AddressNames

_Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
_Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
_Field: TypeAlias = "Callable[[str], Sequence[Any]]"
"""A function that returns the items' values of a field, by its name; nulls if it is unknown."""


class BrokerAddress(NamedTuple):
    """A broker, or all brokers on one host."""

    ip: str
    """Canonical IP address, without brackets."""
    port: int | None
    """None for any port."""

    def __str__(self) -> str:
        """Return the text that :func:`parse_broker` parses."""
        ip = f"[{self.ip}]" if ":" in self.ip else self.ip
        return ip if self.port is None else f"{ip}:{self.port}"


def parse_broker(text: str) -> BrokerAddress:
    """Parse ``IP``, ``IP:PORT``, ``[IPV6]`` or ``[IPV6]:PORT``.

    Raises UsageError for anything else. Host names are not resolved.
    """
    host, port = text, None
    if text.startswith("["):
        host, bracket, port_text = text[1:].partition("]")
        host = host if bracket else text
        port = port_text.removeprefix(":") if port_text else None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    import ipaddress  # imported late: it is slow, and most filters have no address

    try:
        ip = str(ipaddress.ip_address(host))
        number = None if port is None else int(port)
    except ValueError:
        raise UsageError(f"not a broker address: {text!r} (use IP or IP:PORT)") from None
    if number is not None and not 0 < number < 65536:
        raise UsageError(f"not a TCP port: {port!r} in {text!r}")
    return BrokerAddress(ip, number)


def _parse_network(text: str) -> _Network:
    """Parse ``IP`` or ``IP/BITS``; raises UsageError for anything else."""
    import ipaddress

    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"not an IP address or network: {text!r} (such as 10.1.2.3 or 10.0.0.0/8)"
        ) from None


_MAX_DIGITS = 18
_MIN_CODE, _MAX_CODE = -(1 << 15), (1 << 15) - 1
_MAX_PARTITION = (1 << 31) - 1
_STATUSES: tuple[str, ...] = get_args(Status)


class NamedPartition(NamedTuple):
    """A partition of the topics that match a glob, or of all topics."""

    topic: str | None
    """A glob; None for any topic."""
    partition: int

    def __str__(self) -> str:
        """Return the text that :func:`parse_partition` parses."""
        return str(self.partition) if self.topic is None else f"{self.topic}-{self.partition}"


def parse_partition(text: str) -> NamedPartition:
    """Parse ``N`` or ``TOPIC-N``; raises UsageError for anything else."""
    topic, dash, number = text.rpartition("-")
    if (topic or not dash) and _is_number(number) and int(number) <= _MAX_PARTITION:
        return NamedPartition(topic if dash else None, int(number))
    raise UsageError(f"not a partition: {text!r} (such as 3 or orders-3)")


def parse_number(text: str) -> int:
    """Parse a number, such as a correlation id; raises UsageError for any other text."""
    if _is_number(text.removeprefix("-")):
        return int(text)
    raise UsageError(f"not a number: {text!r}")


def parse_status(text: str) -> str:
    """Parse a status word, in any case; raises UsageError for any other text."""
    status = text.lower().replace("-", "_")
    if status in _STATUSES:
        return status
    raise UsageError(f"unknown status: {text!r}; there are {', '.join(_STATUSES)}")


def parse_error(text: str) -> int:
    """Parse the name (in any case) or number of an error code.

    Raises UsageError for any other text.
    """
    if _is_number(text.removeprefix("-")):
        code: int | None = int(text)
    else:
        code = error_code(text.upper())
    if code is not None and _MIN_CODE <= code <= _MAX_CODE:
        return code
    near = similar(text, (name for name, _ in ERRORS.values()))
    raise UsageError(f"unknown error: {text!r}{near or ' (kanalyze protocol errors lists them)'}")


class NamedApis(NamedTuple):
    """APIs by name and by key."""

    names: frozenset[str]
    keys: frozenset[int]
    lower_names: frozenset[str]
    """The names in lower case."""


class FoundRows(NamedTuple):
    """Rows that a query found: requests, and connections with all of their requests."""

    requests: frozenset[tuple[str | int | None, ...]]
    """Values of :data:`KEY_COLUMNS`."""
    connections: frozenset[tuple[str, int]]
    """Connections, and their numbers among those of the same ends."""
    all_connections: frozenset[tuple[str, int]]
    """These, and those of the requests."""


class TimeOfDay(NamedTuple):
    """A time whose day is not known yet."""

    ns: int
    """Since midnight."""
    zone: str = ""
    """The name of a time zone; empty for UTC."""


class RelativeTime(NamedTuple):
    """A time by the captures: so long after their first packet, or before their last."""

    ns: int
    """Negative before the last packet."""


_PENDING = (TimeOfDay, RelativeTime)
"""Times that are known once the times of the captures are."""


class RowFilter:
    """Conditions on rows. ``RowFilter()`` matches every row.

    Globs are case-sensitive; they may have ``*``, ``?`` and ``[...]``.
    """

    __slots__ = ("_tests", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        """Make a filter.

        Args:
            values: what :func:`parse_condition` returned, by name of the filter; those that are
                null or empty are no conditions. None for no conditions.
        """
        self._values = {name: value for name, value in (values or {}).items() if _is_set(value)}
        self._tests = {
            name: condition.test(name, self._values)
            for name, condition in _CONDITIONS.items()
            if name in self._values and not isinstance(self._values[name], _PENDING)
        }

    @classmethod
    def parse(cls, *, api_names: Mapping[str, int] | None = None, **conditions: Any) -> RowFilter:
        """Return the filter that texts describe.

        Args:
            api_names: maps the known API names to keys; None accepts any name.
            **conditions: by name of the filter, as in :data:`~kanalyze.spec.filters.FILTERS`: a
                text, several, or True for a flag; TCP ports are numbers.

        Raises:
            UsageError: a text cannot be parsed.
        """
        return cls(
            {name: parse_condition(name, value, api_names) for name, value in conditions.items()}
        )

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a filter, as parsed; ``default`` if it is not set."""
        return self._values.get(name, default)

    @property
    def passes_all(self) -> bool:
        """True if there are no conditions."""
        return not self._values

    @property
    def needs_day(self) -> bool:
        """True if a time depends on the captures; then call :meth:`on_day_of` before matching."""
        return any(isinstance(value, _PENDING) for value in self._values.values())

    @property
    def needs_end(self) -> bool:
        """True if a time depends on the last packet."""
        times = (self.get("since"), self.get("until"))
        return any(isinstance(each, RelativeTime) and each.ns < 0 for each in times)

    def on_day_of(self, first_ns: int, last_ns: int | None = None) -> RowFilter:
        """Return this filter with times that depend on the captures replaced by Unix times.

        A time of day more than 12 hours before the first packet means the next day. So does an end
        that would not be after the beginning.

        Args:
            first_ns: Unix time of the first packet in ns.
            last_ns: that of the last packet; None will do unless :attr:`needs_end`.
        """
        if not self.needs_day:
            return self
        since = _placed(self.get("since"), first_ns, last_ns)
        until = _placed(self.get("until"), first_ns, last_ns)
        if isinstance(self.get("until"), TimeOfDay) and since is not None and until <= since:
            until += NS_PER_DAY
        return RowFilter({**self._values, "since": since, "until": until})

    def among(self, found: FoundRows) -> RowFilter:
        """Return this filter, restricted to rows that were found."""
        return RowFilter({**self._values, "found_connections": found, "found_rows": found})

    def naming(self, names: AddressNames | None) -> RowFilter:
        """Return this filter with the names that some of its conditions are about.

        Raises UsageError if there is such a condition, but no names.
        """
        wanting = [name for name in BY_NAMES if name in self._values]
        if wanting and names is None:
            name = wanting[0].replace("_", "-")
            raise UsageError(
                f"a filter by {name} needs names of addresses: --names FILE, names= in Python"
            )
        return RowFilter({**self._values, _NAMES: names}) if wanting else self

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions that are set, as plain values, by their names in reports."""
        return {
            each.field: _CONDITIONS[name].plain(self._values[name])
            for name, each in FILTERS.items()
            if name in self._tests
        }

    @property
    def names_items(self) -> bool:
        """True if there is a condition on topics or partitions."""
        return "topic" in self._values or "partition" in self._values

    def has_item(self, topic: str | None, partition: int | None) -> bool:
        """Return true if a partition of a topic meets the conditions on topics and partitions."""
        item = [(topic, partition)]
        return all(
            self._tests[name](item) for name in ("topic", "partition") if name in self._tests
        )

    def numbers(self, block: RowBlock) -> Sequence[int]:
        """Return the positions of the matching rows of a block, from 0."""
        numbers: Sequence[int] = range(len(block))
        for name, test in self._tests.items():
            columns = [_block_values(block, column) for column in _CONDITIONS[name].columns]
            numbers = [n for n in numbers if test(*[column[n] for column in columns])]
        return numbers

    def matches_connection(self, row: ConnectionRow) -> bool:
        """Return true if a connection meets the conditions on clients, brokers and times.

        It meets a condition on times if any part of the connection is in the time range. Without a
        time it meets none.
        """
        return self._matches(row, _CONNECTION_COLUMNS)

    def matches_anomaly(self, row: AnomalyRow) -> bool:
        """Return true if an anomaly meets the conditions on clients, brokers and times.

        An anomaly without a time or a connection does not meet conditions on these.
        """
        return self._matches(row, _ANOMALY_COLUMNS)

    def _matches(
        self, row: ConnectionRow | AnomalyRow, columns: Mapping[str, Sequence[str]]
    ) -> bool:
        """Return true if a row meets the conditions on these columns, by name of the filter."""
        return all(
            test(*[getattr(row, column) for column in columns[name]])
            for name, test in self._tests.items()
            if name in columns
        )


def parse_condition(name: str, value: Any, api_names: Mapping[str, int] | None = None) -> Any:
    """Return the value of a filter from texts, for :class:`RowFilter`; see its ``parse``."""
    if name == "api":
        return _parse_apis(value, api_names) if value else None
    return _CONDITIONS[name].parse(value) if value or isinstance(value, str) else None


def _parse_apis(texts: Iterable[str], api_names: Mapping[str, int] | None) -> NamedApis:
    """Parse API names (in any case) or API keys (in digits).

    ``api_names`` maps the known names to keys; None accepts any name. Raises UsageError for an
    unknown name.
    """
    names_or_keys = tuple(texts)
    names = [_known_api(text, api_names) for text in names_or_keys if not _is_number(text)]
    return NamedApis(
        frozenset(names),
        frozenset(int(text) for text in names_or_keys if _is_number(text)),
        frozenset(name.lower() for name in names),
    )


def _parse_time(text: str) -> int | TimeOfDay | RelativeTime:
    """Parse a time, with the name of a zone in brackets if it is not UTC."""
    text, name = split_zone(text)
    relative_ns = parse_relative_ns(text)
    if relative_ns is not None:
        return RelativeTime(relative_ns)
    of_day_ns = parse_time_of_day_ns(text)
    if of_day_ns is None:
        return parse_time_ns(text, zone_of(name))
    return TimeOfDay(of_day_ns, "" if text.endswith("Z") else zone_of(name).name)


def _each(parse: Callable[[str], Any], texts: Iterable[str]) -> tuple[Any, ...]:
    return tuple(map(parse, texts))


def _parse_kinds(names: Iterable[str]) -> frozenset[str]:
    from kanalyze.tables.anomalies import parse_kinds  # imported late: a large table

    return parse_kinds(names)


def _set_of(parse: Callable[[str], Any], texts: Iterable[str]) -> frozenset[Any]:
    return frozenset(map(parse, texts))


def _texts(values: Iterable[Any]) -> list[str]:
    return list(map(str, values))


def _is_set(value: Any) -> bool:
    """Return true for a condition: 0 is a duration or a time."""
    return bool(value) or type(value) is int


def _is_number(text: str) -> bool:
    # int() refuses numbers of thousands of digits.
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _placed(value: Any, first_ns: int, last_ns: int | None) -> Any:
    """Return a time that depends on the captures as a Unix time in ns; others as they are."""
    if isinstance(value, TimeOfDay):
        return _on_day(value, first_ns)
    if isinstance(value, RelativeTime):
        return value.ns + (first_ns if value.ns >= 0 or last_ns is None else last_ns)
    return value


def _on_day(of_day: TimeOfDay, first_ns: int) -> int:
    zone = zone_of(of_day.zone)
    first_there_ns = first_ns + zone.offset_ns(first_ns)
    wall_ns = first_there_ns // NS_PER_DAY * NS_PER_DAY + of_day.ns
    if first_there_ns - wall_ns > NS_PER_DAY // 2:
        wall_ns += NS_PER_DAY
    return zone.since_epoch_ns(wall_ns)


def _known_api(name: str, api_names: Mapping[str, int] | None) -> str:
    if api_names is None:
        return name
    by_lower = {known.lower(): known for known in api_names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    raise UsageError(f"unknown API: {name!r}{similar(name, api_names)}")


# Cached: it is called for every row, and a capture has few clients.
@lru_cache(maxsize=4096)
def _address(text: str) -> _Address:
    import ipaddress

    return ipaddress.ip_address(text)


class _Condition(NamedTuple):
    """A condition on requests: how its value is parsed, and which rows meet it."""

    holds: Callable[..., bool]
    """Called with the value, those of ``others``, and the value of each of the columns."""
    columns: tuple[str, ...]
    """Names of columns of the row contract; or ``items`` (topics and partitions of the row, those
    of its errors included), ``codes`` (of its errors), ``has_errors``."""
    parse: Callable[[Any], Any] = tuple
    plain: Callable[[Any], Any] = list
    """Returns the value as it stands in reports."""
    others: tuple[str, ...] = ()
    """Filters whose values the condition depends on, too; empty if they are not set."""

    def test(self, name: str, values: Mapping[str, Any]) -> Callable[..., bool]:
        """Return the test of this condition, by the values of all; it takes the columns' values."""
        others = [values.get(other, ()) for other in self.others]
        return partial(self.holds, values[name], *others)


def _block_values(block: RowBlock, name: str) -> Sequence[Any]:
    """Return the values of a block's rows of one of the ``columns`` of a :class:`_Condition`."""
    if name == "items":
        partitions = _item_values(block, "partitions", _items_of)
        errors = _item_values(block, "errors", _items_of)
        return [[*of_row, *failed] for of_row, failed in zip(partitions, errors, strict=True)]
    if name == "codes":
        return list(_item_values(block, "errors", lambda items: items("code")))
    if name == "has_errors":
        return [end > first for first, end in pairwise(_lists(block, "errors").offsets)]
    return block.values([_COLUMNS[name]])[0]


def _item_values(
    block: RowBlock, name: str, values_of: Callable[[_Field], Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    """Yield, for each row, what ``values_of`` returns for its partitions, or for its errors."""
    lists = _lists(block, name)
    items = RowBlock(lists.offsets[-1], dict(lists.fields))
    fields = {field.name: field for field in _COLUMNS[name].fields}

    def values(field: str) -> Sequence[Any]:
        return items.values([fields[field]])[0] if field in fields else [None] * len(items)

    all_values = values_of(values)
    return (all_values[first:end] for first, end in pairwise(lists.offsets))


def _items_of(field: _Field) -> Sequence[tuple[str | None, int | None]]:
    """Return topic and partition of each item; the topic's id if its name is unknown."""
    items = zip(field("topic"), field("topic_id"), field("partition"), strict=True)
    return [(name or topic_id, partition) for name, topic_id, partition in items]


def _lists(block: RowBlock, name: str) -> Lists:
    lists = block.columns[name]
    assert isinstance(lists, Lists)
    return lists


_COLUMNS = {column.name: column for column in COLUMNS}


def _has_api(apis: NamedApis, api_key: int | None, api_name: str | None) -> bool:
    return api_key in apis.keys or (api_name is not None and api_name.lower() in apis.lower_names)


def _has_any_of(wanted: frozenset[Any], *values: Any) -> bool:
    return not wanted.isdisjoint(values)


def _is_connection(wanted: Collection[str], connection: str | None) -> bool:
    """Return true if a connection, or its client's end, is one of those wanted."""
    return connection is not None and (
        connection in wanted or connection.partition(">")[0] in wanted
    )


def _has_anomaly(wanted: frozenset[str], anomalies: Sequence[str]) -> bool:
    return not wanted.isdisjoint(anomalies)


def _fits_glob(globs: Sequence[str], text: str | None) -> bool:
    return text is not None and any(fnmatchcase(text, glob) for glob in globs)


def _is_in_network(networks: Sequence[_Network], ip: str | None) -> bool:
    if ip is None:
        return False
    address = _address(ip)
    return any(address in network for network in networks)


def _has_name(
    field: str, globs: Sequence[str], names: AddressNames, ip: str | None, time_ns: int | None
) -> bool:
    """Return true if a name of an address at a time fits."""
    known = None if ip is None else names.of(ip, time_ns)
    return known is not None and _fits_glob(globs, getattr(known, field))


def _is_broker(brokers: Sequence[BrokerAddress], ip: str | None, port: int | None) -> bool:
    return any(ip == broker.ip and broker.port in (None, port) for broker in brokers)


def _has_topic(globs: Sequence[str], items: Sequence[tuple[str | None, int | None]]) -> bool:
    return any(_fits_glob(globs, topic) for topic, _ in items)


def _has_partition(
    partitions: Sequence[NamedPartition],
    topics: Sequence[str],
    items: Sequence[tuple[str | None, int | None]],
) -> bool:
    """Return true if an item is one of the partitions, and of one of the topics, if any."""
    return any(
        number == partition and (glob is None or _fits_glob((glob,), topic))
        for topic, partition in items
        if not topics or _fits_glob(topics, topic)
        for glob, number in partitions
    )


def _has_error(wanted: frozenset[int], codes: Sequence[int], first: int | None) -> bool:
    return first in wanted or not wanted.isdisjoint(codes)


def _may_have_failed(
    _: bool, has_errors: bool, status: str, error_code: int | None, response_ns: int | None
) -> bool:
    """Return true if a response has an error code, or was not read."""
    if has_errors or status == "error":
        return True
    return status == "malformed" and error_code is None and response_ns is not None


def _is_slower(limit_ns: int, latency_ns: int | None, waited: bool | None) -> bool:
    return latency_ns is not None and latency_ns > limit_ns and not waited


def _began(compare: Callable[[int, int], bool], limit_ns: int, *times: int | None) -> bool:
    """Return whether the first of these times that is known compares so with a limit."""
    first_ns = next((time_ns for time_ns in times if time_ns is not None), None)
    return first_ns is not None and compare(first_ns, limit_ns)


def _is_on_found(found: FoundRows, connection: str | None, number: int | None) -> bool:
    return (connection, number) in found.all_connections


def _is_found(found: FoundRows, *key: str | int | None) -> bool:
    return key[:2] in found.connections or key in found.requests


KEY_COLUMNS = (
    "connection",
    "connection_number",
    "correlation_id",
    "request_start_ns",
    "response_start_ns",
    "request_packet",
    "response_packet",
)
"""Columns whose values together are those of one request."""
_NAMES = "names"
"""The value of a filter that has these names; it is no condition."""
_CONDITIONS = {
    "found_connections": _Condition(_is_on_found, KEY_COLUMNS[:2]),
    "found_rows": _Condition(_is_found, KEY_COLUMNS),
    "api": _Condition(
        _has_api,
        ("api_key", "api_name"),
        plain=lambda apis: [*sorted(apis.names), *_texts(sorted(apis.keys))],
    ),
    "status": _Condition(_has_any_of, ("status",), partial(_set_of, parse_status), sorted),
    "errors": _Condition(
        _may_have_failed, ("has_errors", "status", "error_code", "response_start_ns"), bool, bool
    ),
    "error": _Condition(
        _has_error,
        ("codes", "error_code"),
        partial(_set_of, parse_error),
        lambda codes: list(map(error_name, sorted(codes))),
    ),
    "slower_than": _Condition(_is_slower, ("latency_ns", "waited"), parse_duration_ns, int),
    "since": _Condition(
        partial(_began, ge), ("request_start_ns", "response_start_ns"), _parse_time, format_time
    ),
    "until": _Condition(
        partial(_began, lt), ("request_start_ns", "response_start_ns"), _parse_time, format_time
    ),
    "client_ip": _Condition(_is_in_network, ("client_ip",), partial(_each, _parse_network), _texts),
    "broker": _Condition(
        _is_broker, ("broker_ip", "broker_port"), partial(_each, parse_broker), _texts
    ),
    "client_app": _Condition(
        partial(_has_name, "app"), ("client_ip", "request_start_ns"), others=(_NAMES,)
    ),
    "zone": _Condition(
        partial(_has_name, "zone"), ("client_ip", "request_start_ns"), others=(_NAMES,)
    ),
    "port": _Condition(_has_any_of, ("broker_port",), frozenset, sorted),
    "connection": _Condition(_is_connection, ("connection",)),
    "packet": _Condition(
        _has_any_of, ("request_packet", "response_packet"), partial(_set_of, parse_number), sorted
    ),
    "correlation_id": _Condition(
        _has_any_of, ("correlation_id",), partial(_set_of, parse_number), sorted
    ),
    "client_id": _Condition(_fits_glob, ("client_id",)),
    "principal": _Condition(_fits_glob, ("principal",)),
    "group": _Condition(_fits_glob, ("group_id",)),
    "anomaly": _Condition(_has_anomaly, ("anomalies",), _parse_kinds, sorted),
    "topic": _Condition(_has_topic, ("items",)),
    "partition": _Condition(
        _has_partition, ("items",), partial(_each, parse_partition), _texts, others=("topic",)
    ),
}
"""The conditions by name of the filter, those that are fast to test first."""
_END_COLUMNS = {
    name: _CONDITIONS[name].columns for name in ("client_ip", "broker", "port", "connection")
}
_CONNECTION_COLUMNS = _END_COLUMNS | {
    "found_connections": KEY_COLUMNS[:2],
    "client_id": ("client_id",),
    "principal": ("principal",),
    **dict.fromkeys(BY_NAMES, ("client_ip", "start_ns")),
    "since": ("end_ns",),
    "until": ("start_ns", "end_ns"),
}
_ANOMALY_COLUMNS = _END_COLUMNS | {
    **dict.fromkeys(BY_NAMES, ("client_ip", "time_ns")),
    "since": ("time_ns",),
    "until": ("time_ns",),
}
"""For other tables, the columns of each filter that they have."""
