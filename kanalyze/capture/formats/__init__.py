"""The capture formats: pcap and pcapng.

In: bytes of a capture, as they come. Out: packets as columns. Begin reading with ``pcap.py``.
"""
