"""One row for each record in Produce requests and Fetch responses.

In: exchanges whose bytes were kept. Out: columns of the record table. Begin reading with
``rows.py``.
"""
