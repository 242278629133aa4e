"""The capture formats: pcap and pcapng.

In: bytes of a capture, in portions of any size. Out: packets as columns. Begin reading with
``parser.py``, then ``pcap.py``.
"""
