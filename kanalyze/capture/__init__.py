"""Captures are read as packets, in time order.

In: files, URLs, pipes, interfaces. Out: :class:`~kanalyze.model.packets.PacketBatch`. Begin reading
with ``reader.py`` (one capture) and ``merge.py`` (several).
"""
