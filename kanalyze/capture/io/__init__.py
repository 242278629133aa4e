"""Where captured bytes come from.

In: a path, a URL, standard input, an open file. Out: its bytes, decompressed. Begin reading with
``source.py``.
"""
