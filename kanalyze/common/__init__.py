"""Helpers that know neither packets nor Kafka: text, times, sizes, paths, columns of numbers.

In: Python values. Out: Python values. Begin reading with the module that an import names: each can
be read alone, and none depends on another package.
"""
