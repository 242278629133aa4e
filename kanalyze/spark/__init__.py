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
        client_metrics,
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
    "client_metrics",
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
    "KanalyzeDataSource": "kanalyze.spark.source.datasource",
    "register": "kanalyze.spark.source.datasource",
    "sql": "kanalyze.spark.answers",
}
"""The modules of public names; of the others it is ``kanalyze.spark.functions``."""


def __getattr__(name: str) -> Any:
    """Load a public name on first use: Spark need not be installed to import the package."""
    if name not in __all__:
        raise AttributeError(f"module 'kanalyze.spark' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_MODULE_OF.get(name, "kanalyze.spark.functions"))
    return getattr(module, name)
