"""Columns: typed arrays, texts by number, lists as offsets.

In: values, in order. Out: a block of columns. Begin reading with ``block.py``.
"""
