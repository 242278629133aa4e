"""Kafka's wire protocol, from the bytes of a stream to pairs of request and response.

In: streams. Out: :class:`~kanalyze.kafka.session.exchange.Exchange`. Begin reading with
``session/tracker.py``; what a message looks like is in ``schema/``, how it is read in ``codec/``.
"""
