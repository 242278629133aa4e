"""Answers questions about captures by the Model Context Protocol.

In: calls of tools. Out: texts and JSON, bounded in rows, size and time. Begin reading with
``server.py``. The package ``mcp`` (the extra of the same name) speaks the protocol.
"""
