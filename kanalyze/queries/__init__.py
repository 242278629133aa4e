"""Questions to rows, each a file of SQL, and what answers them on one machine: DuckDB.

In: rows as Arrow batches. Out: tables of answers, and the report made of them. Begin reading with
``database.py``; the questions are in ``sql/``: ``tables/`` are views, ``report/`` are what a report
is made of, ``questions/`` are for people. It knows neither captures nor terminals.
"""
