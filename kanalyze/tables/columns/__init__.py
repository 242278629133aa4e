"""Columns: typed arrays, texts by number, lists as offsets.

In: values, one after the other. Out: a block of columns. Begin reading with ``block.py``.
"""
