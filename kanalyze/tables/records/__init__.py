"""One row for each record inside of Produce and Fetch.

In: exchanges whose bytes were kept. Out: columns of the record table. Begin reading with
``rows.py``.
"""
