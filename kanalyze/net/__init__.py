"""Packet batches to TCP streams: link, IP and TCP headers as columns, and reassembly.

In: :class:`kanalyze.model.PacketBatch`. Out: :class:`kanalyze.model.StreamUpdate`. Must not know:
where packets come from, nor what the streams say.
"""
