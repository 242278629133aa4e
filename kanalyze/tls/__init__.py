"""TLS: the stage between TCP streams and the readers of plaintext.

In: :class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap` of both
directions of a connection, as ``net`` returns them, and a key log. Out: chunks and gaps of the
plaintext, and facts about the session
(:class:`~kanalyze.tls.negotiation.TlsFacts`), some of which are known without keys. Begin reading
with ``session.py``.

    StreamItem -> TlsRecord -> opened content -> handshake messages, alerts, StreamItem
       records.py     protection.py   negotiation.py, direction.py

TLS 1.2 (AES-GCM, AES-CCM, ChaCha20-Poly1305, AES-CBC with both orders of MAC) and TLS 1.3 are
decrypted. Every byte of plaintext is verified by its record's tag or MAC. Each direction is
decrypted by itself; both share only the negotiation, on which keys depend.

The plaintext of a record is one segment with the time and number of the packet that completed the
record; its first byte is a segment of its own if that record began in an earlier packet. Most
messages begin with a record. So the first packet of a message is its real first packet, and the
last one is the packet that made it readable. Offsets count plaintext. Lost records become a gap.
Its length is that of the plaintext if the records around it give that (AEAD suites), otherwise
``UNKNOWN_GAP_BYTES``, which is longer than any message.

A capture that begins after the handshake is decrypted if it is TLS 1.3 and the log has the
session (``late_start.py``). Secrets and keys are in no ``repr``, exception, count or event.

The package ``cryptography`` (the extra ``tls``) has the ciphers. It is imported, by
``protection.py`` alone, with the first secret that fits a session; without it,
:func:`~kanalyze.tls.keylog.require_ciphers` raises an error of one line.
"""
