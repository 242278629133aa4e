"""Link-layer headers: Ethernet, PPP, MPLS, netfilter's log and their like.

In: a packet, and where reading it has come to. Out: which header follows, and where. Begin reading
with ``linktypes.py``.
"""
