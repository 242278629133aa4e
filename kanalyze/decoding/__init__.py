"""Decodes every field of every message, and hides secrets.

In: exchanges that keep their bytes. Out: values by name. Begin reading with ``bodies.py``.
"""
