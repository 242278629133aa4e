"""The one exception that the recorder shows as a single line."""


class RecorderError(Exception):
    """Something that stops a recording and that one line can explain."""
