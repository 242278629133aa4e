"""The input of ``kanalyze live``: packets of an interface or a pipe, filtered; and key logs.

In: packets, files. Out: selected packets, TLS secrets. Begin reading with ``interface_feed.py``.
"""
