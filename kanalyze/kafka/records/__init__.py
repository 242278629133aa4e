"""The records inside of Produce and Fetch: batches, message sets, compression, checksums.

In: the bytes of a records field. Out: records, or what the headers of their batches say. Begin
reading with ``batches.py``.
"""
