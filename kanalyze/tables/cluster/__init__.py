"""The tables ``groups`` and ``metadata``: consumer groups, brokers, leaders, coordinators.

In: exchanges of whose bodies more fields were read than a row needs. Out: lines by column. Must not
know: packets, files. Begin reading with ``group_row.py`` and ``metadata_row.py``, then
``reader.py``.
"""
