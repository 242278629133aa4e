"""The code that makes the rows of all tables: requests, records, connections, ...

In: exchanges, closed connections, anomalies. Out: columns
(:class:`~kanalyze.tables.columns.block.RowBlock`) and rows. Begin reading with
``requests/row_assembler.py``; the columns are declared in :mod:`kanalyze.spec.rows`.
"""
