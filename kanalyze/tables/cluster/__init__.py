"""The tables ``groups`` and ``metadata``: consumer groups, brokers, leaders, coordinators.

In: exchanges, decoded with more fields than rows need. Out: lines by column. Begin reading with
``kanalyze/spec/rows/cluster.py``, then ``reader.py``.
"""
