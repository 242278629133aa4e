"""The row types of all tables, which declare their columns.

In: nothing. Out: a row type and its columns for each table; :mod:`kanalyze.spec.rows.tables` has
them all. Begin reading with ``requests.py``.
"""
