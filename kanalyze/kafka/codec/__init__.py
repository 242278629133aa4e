"""Bytes of a message body become values, by the definitions of the message.

In: a definition, a version, the wanted fields, and a body as its bytes come. Out: a tape of
numbers, or values. Begin reading with ``compiler.py``, then ``machine.py``.
"""
