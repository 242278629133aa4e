"""Metrics for Prometheus.

In: blocks of rows. Out: counters over HTTP. Begin reading with ``counters.py``.
"""
