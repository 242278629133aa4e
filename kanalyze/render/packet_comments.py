"""The comment on the packets of a request, which Wireshark shows.

In: a row. Out: one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.texts import escape
from kanalyze.render.units import duration_text

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

__all__ = ["comment_of"]

_MAX_CLIENT_ID_CHARS: Final = 200
_MAX_ERRORS: Final = 8


def comment_of(row: Row) -> str:
    """Return the comment for a request: one line, with control characters escaped.

    ``Produce v9; correlation id 7; client billing; error; NOT_LEADER_OR_FOLLOWER; latency 3 ms``
    """
    api = row.api_name or ("?" if row.api_key is None else f"API {row.api_key}")
    parts = [api if row.api_version is None else f"{api} v{row.api_version}"]
    if row.correlation_id is not None:
        parts.append(f"correlation id {row.correlation_id}")
    if row.client_id is not None:
        parts.append(f"client {escape(row.client_id[:_MAX_CLIENT_ID_CHARS])}")
    parts.append(row.status.replace("_", " "))
    parts.append(", ".join(dict.fromkeys(error.name for error in row.errors[:_MAX_ERRORS])))
    if row.latency_ns is not None:
        parts.append(f"latency {duration_text(row.latency_ns)}")
    return "; ".join(filter(None, parts))
