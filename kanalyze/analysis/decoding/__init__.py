"""Every field of every message: what ``decode`` shows, with no secret in it.

In: exchanges that hold their frames' bytes. Out: decoded values, or where and why there are none.
Knows neither JSON nor text.
"""
