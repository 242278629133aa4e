"""What is kept in files: packets of the requests that matter, and rows.

In: packets and rows. Out: pcapng and Parquet files of bounded size. Begin reading with
``packet_recorder.py``.
"""
