"""SQL queries over tables of rows, and DuckDB, which runs them on one machine.

In: rows as Arrow batches. Out: results of queries as tables, and the report made of them. Begin
reading with ``database.py``. The queries are in ``sql/``: ``tables/`` has views, ``report/`` the
tables of a report, ``questions/`` queries for users.
"""
