"""What ``live`` reads: an interface or a pipe, filtered.

In: packets. Out: packets. Begin reading with ``interface_feed.py``.
"""
