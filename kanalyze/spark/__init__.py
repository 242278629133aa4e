"""The same rows with Apache Spark: many captures, or one large one, on all cores of a cluster.

In: captures, and a Spark session. Out: DataFrames, tables. Begin reading with
``functions.py``.

    >>> from kanalyze import spark as kanalyze_spark
    >>> rows = kanalyze_spark.requests(spark, "s3://archive/2026/11/*.pcap.gz")

or, for a look at some gigabytes, as a data source:

    >>> kanalyze_spark.register(spark)
    >>> rows = spark.read.format("kanalyze").load("captures/*.pcap")

Needs ``pip install kanalyze[spark]`` and a Java runtime, 17 or later. Nothing else of kanalyze
imports this package, and the package itself imports pyspark when one of the names below is first
used, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanalyze.spark.answers import sql
    from kanalyze.spark.functions import (
        Archive,
        anomalies,
        changes,
        connections,
        groups,
        metadata,
        open_archive,
        open_packets,
        records,
        requests,
    )
    from kanalyze.spark.source.datasource import KanalyzeDataSource, register

__all__ = [
    "Archive",
    "KanalyzeDataSource",
    "anomalies",
    "changes",
    "connections",
    "groups",
    "metadata",
    "open_archive",
    "open_packets",
    "records",
    "register",
    "requests",
    "sql",
]

_MODULE_OF = {
    "Archive": "kanalyze.spark.functions",
    "KanalyzeDataSource": "kanalyze.spark.source.datasource",
    "anomalies": "kanalyze.spark.functions",
    "changes": "kanalyze.spark.functions",
    "connections": "kanalyze.spark.functions",
    "groups": "kanalyze.spark.functions",
    "metadata": "kanalyze.spark.functions",
    "open_archive": "kanalyze.spark.functions",
    "open_packets": "kanalyze.spark.functions",
    "records": "kanalyze.spark.functions",
    "register": "kanalyze.spark.source.datasource",
    "requests": "kanalyze.spark.functions",
    "sql": "kanalyze.spark.answers",
}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    """Load a public name on first use: Spark need not be installed to import the package."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'kanalyze.spark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)
