"""Packets become streams of bytes: one pair of streams for each TCP connection.

In: :class:`~kanalyze.model.packets.PacketBatch`. Out:
:class:`~kanalyze.model.streams.StreamUpdate`. Begin reading with ``headers.py``, then
``tcp/reassembly.py``.
"""
