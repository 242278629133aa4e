"""What Python's users give as conditions: datetimes, durations, one value or several.

In: any value, with the name of the argument. Out: the texts that
:class:`~kanalyze.tables.filters.RowFilter` reads, numbers, or a UsageError of one line that begins
with the name.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kanalyze.common.texts import parse_size
from kanalyze.errors import UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from decimal import Decimal
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Texts: TypeAlias = "str | Iterable[str] | None"
"""One, several, or none."""
Apis: TypeAlias = "int | str | Iterable[int | str] | None"
"""Names, or keys as numbers."""
Numbers: TypeAlias = "int | str | Iterable[int | str] | None"
"""Numbers, or texts such as ranges."""
Ports: TypeAlias = "int | str | Iterable[int | str] | None"
_Address: TypeAlias = "str | IPv4Address | IPv6Address | IPv4Network | IPv6Network"
Addresses: TypeAlias = "_Address | Iterable[_Address] | None"
"""As texts, or as the values of Python's ``ipaddress``."""
Moment: TypeAlias = "str | datetime | date | time | float | Decimal | None"
"""A text, or a value of Python; without a zone it is UTC; a number is Unix seconds."""
Duration: TypeAlias = "str | timedelta | None"

_T = TypeVar("_T")
_NS_PER_US = 1_000
_MICROSECOND = timedelta(microseconds=1)
_MAX_SHOWN = 60
_NUMBER_LIMIT = 1 << 63
"""Kafka's numbers are 64-bit signed integers, and so below this."""


def parsed(name: str, parse: Callable[..., _T], *values: Any) -> _T:
    """Return what ``parse`` makes of values; a UsageError that it raises begins with the name."""
    try:
        return parse(*values)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def texts(name: str, value: object, *, numbers: bool = False) -> tuple[str, ...]:
    """Return one text or several as a tuple; empty for None. With ``numbers``, integers too."""
    if value is None:
        return ()
    return tuple(_text(name, item, numbers=numbers) for item in _several(value))


def number_texts(name: str, value: object) -> tuple[str, ...]:
    """Return one number or several as texts; texts are returned as they are. Empty for None."""
    values = () if value is None else _several(value)
    numbers = ((item, _integer(item)) for item in values)
    return tuple(
        _text(name, item, numbers=False) if number is None else _digits(name, number)
        for item, number in numbers
    )


def _digits(name: str, number: int) -> str:
    # Shown in hexadecimal: str() refuses numbers of thousands of digits.
    if abs(number) >= _NUMBER_LIMIT:
        raise UsageError(f"{name}: not a number of Kafka's: {hex(number)[:_MAX_SHOWN]}")
    return str(number)


def _several(value: object) -> list[object]:
    """Return the items of a list, a set or another iterable; any other value as the only item."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__") or isinstance(value, type):
        return [value]
    return list(value)


def _text(name: str, value: object, *, numbers: bool) -> str:
    if isinstance(value, str):
        return value
    number = _integer(value) if numbers else None
    if number is None:
        raise UsageError(f"{name}: not a text: {shown(value)}")
    if not 0 <= number < _NUMBER_LIMIT:
        raise UsageError(f"{name}: not the key of an API: {shown(value)}")
    return str(number)


def _integer(value: object) -> int | None:
    """Return an integer of Python or NumPy as an int; None for any other value, bool included."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return index(value)


def address_texts(name: str, value: object) -> tuple[str, ...]:
    """Return addresses or networks, given as texts or as values of ``ipaddress``, as texts."""
    if type(value).__module__ == "ipaddress":
        return (str(value),)  # iterating over a network would return all its addresses
    values = () if value is None else _several(value)
    return tuple(
        str(item) if type(item).__module__ == "ipaddress" else _text(name, item, numbers=False)
        for item in values
    )


def ports(name: str, value: object) -> tuple[int, ...]:
    """Return TCP ports, 1 to 65535, given as numbers or as texts; empty for None."""
    return () if value is None else tuple(_port(name, item) for item in _several(value))


def _port(name: str, value: object) -> int:
    number = _integer(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 5:
        number = int(value)
    if number is not None and 0 < number < 65536:
        return number
    raise UsageError(f"{name}: not a TCP port: {shown(value)}")


def count(name: str, value: object, most: int) -> int:
    """Return a number from 1 to ``most``."""
    number = _integer(value)
    if number is not None and 0 < number <= most:
        return number
    raise UsageError(f"{name}: not a number from 1 to {most}: {shown(value)}")


def time_text(name: str, value: object) -> str | None:
    """Return a time as a text that a filter reads; None for None.

    A datetime without a zone is UTC; a date is its first moment; a number is Unix seconds.
    """
    if value is None or isinstance(value, str):
        return value
    text = None
    if isinstance(value, datetime):
        text = _datetime_text(value)
    elif isinstance(value, date) or (isinstance(value, time) and value.tzinfo is None):
        text = value.isoformat()
    else:
        text = _seconds_text(value)
    if text is None:
        raise UsageError(f"{name}: not a time: {shown(value)}")
    return text


def _seconds_text(value: object) -> str | None:
    """Return Unix seconds in digits; None for what is no finite number of 0 or more."""
    from decimal import Decimal  # slow to import, and most filters have no time

    number = _integer(value)
    if number is not None:
        seconds = Decimal(number)
    elif isinstance(value, float):
        seconds = Decimal(repr(float(value)))  # a float of NumPy has another repr
    elif isinstance(value, Decimal):
        seconds = value
    else:
        return None
    return f"{seconds:f}" if seconds.is_finite() and seconds >= 0 else None


def _datetime_text(value: datetime) -> str | None:
    """Return a time in UTC; None for pandas' NaT, and for a year that UTC cannot express."""
    if value != value:
        return None
    try:
        at = value if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        return None
    # A Timestamp of pandas has nanoseconds, too.
    ns = at.microsecond * _NS_PER_US + getattr(at, "nanosecond", 0)
    return f"{at.replace(tzinfo=None).isoformat(timespec='seconds')}.{ns:09d}Z"


def duration_text(name: str, value: object) -> str | None:
    """Return a duration as a text that a filter reads; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, timedelta) and value >= timedelta(0):
        # A Timedelta of pandas has nanoseconds, too.
        return f"{value // _MICROSECOND * _NS_PER_US + getattr(value, 'nanoseconds', 0)}ns"
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise UsageError(f"{name}: {value} has no unit (give '{value}ms', or a timedelta)")
    raise UsageError(f"{name}: not a duration: {shown(value)}")


def truth(name: str, value: object) -> bool:
    """Return a bool; a value that is only truthy or falsy raises UsageError."""
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name}: not True or False: {shown(value)}")


def size_bytes(name: str, value: object) -> int | None:
    """Return a size, given as bytes or as a text such as ``2G``; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        return parsed(name, parse_size, value)
    number = _integer(value)
    if number is None:
        raise UsageError(f"{name}: not a number of bytes: {shown(value)}")
    return number


def path_text(name: str, value: object) -> str | None:
    """Return a path as text; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise UsageError(f"{name}: not a path: {shown(value)}")


def path_texts(name: str, value: object) -> tuple[str, ...]:
    """Return one path or several as texts; empty for None."""
    values = () if value is None else _several(value)
    return tuple(text for item in values if (text := path_text(name, item)) is not None)


@contextmanager
def opening(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise UsageError if the block cannot open or read a file; the text names it."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}") from error
    except ValueError as error:  # a null byte
        raise UsageError(f"not a path: {shown(path)}") from error


def shown(value: Any) -> str:
    """Return a value as one short line for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
