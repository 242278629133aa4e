"""From requests to their packets: a capture of what a filter selects.

In: an analysis of captures, and filters. Out: a pcapng file, each packet with a comment that says
which request it belongs to. Begin reading with :mod:`kanalyze.extraction.extract`.
"""
