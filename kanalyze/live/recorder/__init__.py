"""The files that ``kanalyze live`` writes: packets of selected requests, and rows.

In: packets and rows. Out: pcapng and Parquet files of limited size. Begin reading with
``packet_recorder.py``.
"""
