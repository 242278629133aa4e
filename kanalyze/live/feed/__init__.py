"""The input of ``kanalyze live``: packets of an interface, filters of packets, key logs.

In: packets, files. Out: selected packets, TLS secrets. Begin reading with ``interface_feed.py``.
"""
