"""Exchanges become rows, rows become statistics.

In: exchanges. Out: rows, and statistics that are sums: a statistic of two halves is the sum of
both. Knows neither files nor terminals.
"""
