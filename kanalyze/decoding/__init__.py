"""Every field of every message: what ``decode`` shows, with no secret in it.

In: exchanges whose bytes were kept. Out: values by name. Begin reading with ``bodies.py``.
"""
