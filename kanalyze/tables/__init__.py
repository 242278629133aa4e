"""The row contracts, and the code that makes rows of requests, records, connections, anomalies.

In: exchanges, closed connections, anomalies. Out: columns
(:class:`~kanalyze.tables.columns.block.RowBlock`) and rows. Begin reading with ``row.py``, then
``requests/row_assembler.py``.
"""
