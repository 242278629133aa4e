"""What ``live`` reads: an interface or a pipe, and of it the packets that are wanted.

In: packets. Out: packets. Begin reading with ``interface_feed.py``.
"""
