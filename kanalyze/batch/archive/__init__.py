"""An archive of captures: read by file, divided by connection, rebuilt.

In: captures. Out: rows in files. Begin reading with ``planning.py``, then ``tasks.py``.
"""
