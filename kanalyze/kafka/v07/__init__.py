"""Kafka 0.7, which is not like any later version, all of it in one place.

In: streams. Out: exchanges, as for later versions. Begin reading with ``messages.py``.
"""
