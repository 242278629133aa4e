"""IP headers, fragments, and the tunnels that IP carries.

In: a packet, and where reading it has come to. Out: which header follows, and where. Begin reading
with ``ip_headers.py``.
"""
