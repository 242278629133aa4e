"""The values that pass between stages: packets, streams, TCP connections, anomalies.

    bytes -> PacketBatch -> StreamUpdate (Chunk | Gap) -> Frame -> Exchange -> row

In: nothing. Out: plain value types, which every stage may use. Begin reading with ``packets.py``
and ``streams.py``. Units are in the names. Times are Unix times in nanoseconds as 64-bit integers,
never floats: a double holds no nanosecond of this century. Packet numbers count from 1 over the
whole input, as Wireshark counts within a file.
"""
