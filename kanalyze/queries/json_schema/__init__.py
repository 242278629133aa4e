"""JSON Schemas of what kanalyze writes as JSON: reports, findings, comparisons, rows.

In: the columns of the tables. Out: schemas by file name, ``published.SCHEMAS``, which
``tools/sample_reports.py`` writes to ``docs/schema/``. Begin reading with ``report.py``, which
describes each field of a report.
"""
