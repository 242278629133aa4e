"""The question of ``kanalyze flows``: who sends how much to whom, and what it costs.

In: the columns to sum by, and a file of prices. Out: SQL with its parameters.

A price file is CSV. Its columns are some of those that flows are summed by, with globs, and prices:
``per_gb`` (10^9 bytes on the wire) and ``per_million_requests``. A flow has the prices of the first
line that matches it; an empty cell matches anything.
"""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.spec.rows.names import NAME_COLUMNS
from kanalyze.spec.rows.views import FLOW_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PRICES = ("per_gb", "per_million_requests")
_MAX_BYTES = 1 << 20
_SUMS = ("requests", "errors", "record_count", "record_bytes", "request_bytes", "response_bytes")
_BYTES_PER_GB = 1e9


class Price(NamedTuple):
    """A line of a price file."""

    globs: Mapping[str, str]
    """A pattern for each column that must match."""
    per_gb: float
    per_million_requests: float


def read_prices(path: str) -> list[Price]:
    """Return the lines of a price file; raises UsageError and OSError."""
    with paths.opened(path) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path}: a price file may have at most 1 MiB")
    try:
        lines = list(csv.DictReader(data.decode("utf-8-sig").splitlines(), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise UsageError(f"{path}: not CSV in UTF-8") from None
    if not lines:
        raise UsageError(f"{path}: has no prices")
    return [_price(f"{path}: line {number}", line) for number, line in enumerate(lines, 2)]


def _price(where: str, line: Mapping[str | None, str | None]) -> Price:
    globs: dict[str, str] = {}
    prices = dict.fromkeys(_PRICES, 0.0)
    for name, text in line.items():
        if name not in (*FLOW_KEYS, *_PRICES) or not isinstance(text, str | None):
            known = ", ".join((*FLOW_KEYS, *_PRICES))
            raise UsageError(f"{where}: unknown column {name!r}; there are {known}")
        if not text:
            continue
        if name in prices:
            prices[name] = _number(where, name, text)
        else:
            globs[name] = text
    return Price(globs, *prices.values())


def _number(where: str, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(f"{where}: {name} is not a price: {text!r}")
    return number


def flows_query(
    by: Sequence[str], prices: Iterable[Price] | None = None, *, has_names: bool = False
) -> tuple[str, dict[str, str | float]]:
    """Return a query for flows, the largest first, and its parameters.

    Args:
        by: the columns to sum by, of :data:`~kanalyze.spec.rows.views.FLOW_KEYS`.
        prices: what flows cost; None for no column ``cost``.
        has_names: whether flows have the names of addresses too.

    Raises:
        UsageError: there is no such column to sum by.
    """
    names = tuple(column.name for column in NAME_COLUMNS)
    for name in by:
        if name in names and not has_names:
            raise UsageError(f"{name}: add --names FILE, with names of addresses")
        if name not in (*FLOW_KEYS, *names):
            raise UsageError(f"unknown column {name!r}; there are {', '.join(FLOW_KEYS)}")
    columns = [*by, *(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in _SUMS)]
    parameters: dict[str, str | float] = {}
    if prices is not None:
        columns.append(f"{_cost(prices, parameters)} AS cost")
    keys = f" GROUP BY {', '.join(by)}" if by else ""
    order = ", ".join(["sum(request_bytes) + sum(response_bytes) DESC", *by])
    return f"FROM flows SELECT {', '.join(columns)}{keys} ORDER BY {order}", parameters


def _cost(prices: Iterable[Price], parameters: dict[str, str | float]) -> str:
    """Return SQL for what flows cost, and add its parameters."""

    def named(value: str | float) -> str:
        name = f"price_{len(parameters)}"
        parameters[name] = value
        return f"${name}"

    cases = []
    for price in prices:
        conditions = [
            f"CAST({key} AS VARCHAR) GLOB {named(glob)}" for key, glob in price.globs.items()
        ]
        condition = " AND ".join(conditions) or "true"
        per_byte = named(price.per_gb / _BYTES_PER_GB)
        per_request = named(price.per_million_requests / 1e6)
        cost = f"(request_bytes + response_bytes) * {per_byte} + requests * {per_request}"
        cases.append(f"WHEN {condition} THEN {cost}")
    # To a billionth: a float's last digits are noise.
    return f"round(sum(CASE {' '.join(cases)} ELSE 0 END) * 1e9) / 1e9"
