"""What to install if a package that kanalyze needs cannot be imported.

In: an error of an import. Out: one line with the command that installs the package. This module
must not import anything slow: it is only imported after such an error.
"""

from __future__ import annotations

import shlex
from typing import Final

__all__ = ["text_of_missing_package"]

_SOURCES: Final = {
    **{name: name for name in ("numpy", "pyarrow", "duckdb", "rich", "cramjam", "crc32c", "lz4")},
    "backports": "backports.zstd",
    "pandas": "kanalyze[pandas]",
    "polars": "kanalyze[polars]",
    **dict.fromkeys(("fsspec", "aiohttp"), "kanalyze[remote]"),
    **dict.fromkeys(("pyspark", "sqlglot"), "kanalyze[spark]"),
    **dict.fromkeys(("scapy", "prometheus_client"), "kanalyze[live]"),
    "cryptography": "kanalyze[tls]",
}
"""What pip has to install, by the top-level name of the missing module."""


def text_of_missing_package(error: ModuleNotFoundError) -> str | None:
    """Return what is missing and how to install it; None if kanalyze does not use the package."""
    package = (error.name or "").partition(".")[0]
    source = _SOURCES.get(package)
    # A shell would take brackets for a pattern.
    return source and f"{package} is not installed: pip install {shlex.quote(source)}"
