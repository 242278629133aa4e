"""Live captures: shows, counts and writes rows while packets are captured.

In: packets and a clock. Out: a view, metrics, files. Begin reading with ``run.py``.
"""
