"""The functions that Python users call.

In: captures and options. Out: :class:`Rows` and reports. Begin reading with ``library.py``.
"""
