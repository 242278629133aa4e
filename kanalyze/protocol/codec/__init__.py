"""Bytes of a message body to values, by the definitions of the message.

In: definitions (:mod:`kanalyze.protocol.language`), the wanted fields, bytes as they come.
Out: a tape of numbers, and Python values of it where somebody asks for them.
Begin reading at :mod:`~kanalyze.protocol.codec.machine`; its input is made by
:mod:`~kanalyze.protocol.codec.program`, its output is read by
:mod:`~kanalyze.protocol.codec.values`.
"""
