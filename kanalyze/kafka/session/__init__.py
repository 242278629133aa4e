"""One connection: whether it is Kafka, which end is the client, which response answers what.

In: streams of all connections. Out: exchanges, anomalies, ended connections. Begin reading with
``tracker.py``, then ``connection.py``.
"""
