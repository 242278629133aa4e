"""TLS: the stage between TCP streams and what reads plaintext, where there are keys.

In: :class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap` of both
directions of a connection, as ``net`` gives them, and a key log. Out: the same of the plaintext
(:class:`~kanalyze.tls.session.TlsEvents`), and what the session was
(:class:`~kanalyze.tls.facts.TlsFacts`), which is known in part without keys. Must not know: files,
sockets, clocks, Kafka. Begin reading with ``session.py``.

    StreamItem -> TlsRecord -> opened content -> handshake messages, alerts, StreamItem
       records.py     protection.py   negotiation.py, alerts.py, application_data.py

TLS 1.2 (AES-GCM, AES-CCM, ChaCha20-Poly1305, AES-CBC with both orders of MAC) and TLS 1.3. Every
byte of plaintext is proven by its record's tag or MAC. Each direction is decrypted by itself; only
what keys depend on goes through the negotiation.

The plaintext of a record is one segment with the time and number of the packet that completed the
record; its first byte is a segment of its own if that record began in an earlier packet. So a
message that begins with a record, as mostly, has its real first packet, and the last packet of a
message is the one that made it readable. Offsets count plaintext. Lost records become a gap: of
the plaintext's length where the records before and behind tell it (AEAD suites), otherwise of
``UNKNOWN_GAP_BYTES``, which no message goes on behind.

A capture that begins after the handshake is decrypted if it is TLS 1.3 and the log has the
session (``late_start.py``). Secrets and keys are in no ``repr``, exception, count or event.

``cryptography`` does the ciphers: the extra ``tls``. It is imported with the first secret that fits
a session; without it :func:`~kanalyze.tls.installed.require_ciphers` says so in a line.
"""
