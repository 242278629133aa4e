"""When the request of each row began.

In: a block of rows. Out: times, as an array. For one row there is ``Row.began_ns``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.tables.columns.numpy_arrays import ints_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.tables.columns.block import RowBlock

__all__ = ["all_began_ns"]


def all_began_ns(block: RowBlock) -> NDArray[np.int64]:
    """Return when each request, or response without a request, began; 0 if unknown."""
    request, response = (
        ints_of(block.columns[name]) for name in ("request_start_ns", "response_start_ns")
    )
    if request.valid is None:
        return request.values
    return np.where(request.valid, request.values, response.values)
