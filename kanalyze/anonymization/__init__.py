"""A capture that can leave the house: names become stand-ins, contents are blanked, the rest stays.

In: captures. Out: a pcapng file. Begin reading with :mod:`kanalyze.anonymization.anonymize`.

Every byte of a packet is blank unless something that was read on purpose puts it there: there is no
list of what has to go, only of what may stay.
"""
