"""The columns of all tables, and the code that makes rows: requests, records, connections, ...

In: exchanges, closed connections, anomalies. Out: columns
(:class:`~kanalyze.tables.columns.block.RowBlock`) and rows. Begin reading with ``row.py``, then
``requests/row_assembler.py``.
"""
