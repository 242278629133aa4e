"""Facts of kanalyze's own, said once: columns, options and filters, the tables of reports.

In: nothing. Out: declarations, as plain values. Begin reading with ``columns.py``.

No logic of packets or messages; what is declared here is spelled by the parser of commands, the
library, Spark, the files of rows, the reports and the documentation.
"""
