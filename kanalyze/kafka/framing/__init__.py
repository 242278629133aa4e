"""One direction of a connection becomes frames, and frames have headers.

In: chunks and gaps of a stream. Out: :class:`~kanalyze.kafka.framing.frame.Frame`. Begin reading
with ``framer.py``.
"""
