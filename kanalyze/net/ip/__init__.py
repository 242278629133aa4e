"""IP headers, fragments, and the tunnels that IP carries.

In: a packet, and the position of the next header in it. Out: the kind and the position of the
header that follows. Begin reading with ``ip_headers.py``.
"""
