"""Captured bytes to packet batches: pcap and pcapng, compressed or not, one file or many.

In: paths, URLs, pipes or binary files. Out: :class:`kanalyze.model.PacketBatch`. Must not know:
what is inside a packet.
"""
