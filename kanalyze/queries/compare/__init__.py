"""Compares two captures: what differs, and whether it may be chance.

In: two databases of rows, or reports as JSON. Out: the comparison as plain values. Begin reading
with ``comparison.py``; ``chance.py`` has the statistics, which do not depend on Kafka.
"""
