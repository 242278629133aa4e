"""Captured bytes to packet batches: pcap and pcapng files, compressed or not, and pipes.

In: paths or binary files. Out: :class:`kanalyze.model.PacketBatch`. Must not know: what is inside
a packet.
"""
