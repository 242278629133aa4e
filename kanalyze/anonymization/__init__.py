"""Makes captures anonymous: names become stand-ins, contents are blanked, the rest stays.

In: captures. Out: a pcapng file. Begin reading with :mod:`kanalyze.anonymization.anonymize`.

Every byte of a packet is blank unless code writes it on purpose. So there is no list of what to
remove, only of what may stay.
"""
