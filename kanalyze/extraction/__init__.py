"""Writes the packets of selected requests into a new capture.

In: an analysis of captures, and filters. Out: a pcapng file, each packet with a comment that says
which request it belongs to. Begin reading with :mod:`kanalyze.extraction.extract`.
"""
