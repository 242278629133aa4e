"""An archive of captures on Spark: read by file, divided by connection, rebuilt.

In: captures. Out: DataFrames of rows. Begin reading with ``archive.py``, then ``tasks.py``.
"""
