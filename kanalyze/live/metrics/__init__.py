"""Metrics for Prometheus.

In: blocks of rows, counts of the capture. Out: metrics over HTTP. Begin reading with
``counters.py``.
"""
