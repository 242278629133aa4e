"""The row contracts, and what writes rows: requests, records, connections, anomalies.

In: exchanges, ended connections, anomalies. Out: columns
(:class:`~kanalyze.tables.columns.block.RowBlock`) and rows. Begin reading with ``row.py``, then
``requests/row_assembler.py``.
"""
