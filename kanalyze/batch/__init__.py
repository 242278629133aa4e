"""``kanalyze batch``: an archive becomes tables and a report, run after run.

In: paths. Out: a folder of Parquet files, which counts as a whole or not at all. Begin reading with
``run.py``.
"""
