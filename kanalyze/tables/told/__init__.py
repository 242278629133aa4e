"""Tables whose lines tell what stands inside messages: groups, metadata.

In: exchanges of whose bodies more fields were read than a row needs. Out: what they tell
(:mod:`.groups`, :mod:`.brokers`), and columns of it (:mod:`.group_row`, :mod:`.metadata_row`).
Begin reading with ``reader.py``.
"""
