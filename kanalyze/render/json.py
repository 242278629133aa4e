"""A summary as JSON.

In: a summary. Out: ASCII text.
"""

from __future__ import annotations

import json
from typing import Any

from kanalyze.version import __version__


def summary_json(summary: dict[str, Any]) -> str:
    """Return a summary as indented JSON that ends in a line break.

    ``kanalyze_version`` is added. Integers are exact; every character outside ASCII is escaped.
    """
    with_version = {
        "schema": summary["schema"],
        "kanalyze_version": __version__,
        **summary,
    }
    return json.dumps(with_version, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
