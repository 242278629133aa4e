"""Proxies in front of a server: what they put before the first byte of the protocol.

In: :class:`~kanalyze.model.streams.StreamUpdate` of all connections. Out: the same updates without
such a prefix, and what it says (:class:`~kanalyze.model.tcp.ProxiedBy`). Begin reading with
``grammar.py``.

    StreamUpdate -> heads of both directions -> Prefix -> StreamUpdate behind it
                    streams.py                  grammar.py
"""
