"""One row for each request.

In: exchanges. Out: columns of the request table. Begin reading with ``row_assembler.py``.
"""
