"""What Kafka's messages are: its APIs, their versions, their fields, its error codes.

In: message definitions in Kafka's own language. Out: a
:class:`~kanalyze.kafka.schema.catalog.Catalog`. Begin reading with ``catalog.py``.
"""
