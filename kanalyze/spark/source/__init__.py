"""Captures as a data source of Spark, read or streamed.

In: paths and options. Out: partitions, and Arrow batches of each. Begin reading with
``datasource.py``.
"""
