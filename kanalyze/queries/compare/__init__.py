"""Before and after: what differs between two captures, and whether it may be chance.

In: two databases of rows, or reports as JSON has them. Out: the comparison as plain values. Begin
reading with ``comparison.py``; ``chance.py`` has the statistics, which know nothing of Kafka. It
knows neither files nor terminals.
"""
