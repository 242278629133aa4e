"""Link-layer headers: Ethernet, PPP, MPLS, netfilter's log and similar ones.

In: a packet, and the position of the next header in it. Out: the kind and the position of the
header that follows. Begin reading with ``linktypes.py``.
"""
