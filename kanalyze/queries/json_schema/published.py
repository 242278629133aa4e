"""All JSON Schemas that kanalyze publishes, by name.

In: the schemas of reports, findings, comparisons and rows. Out: :data:`SCHEMAS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.queries.json_schema.comparison import COMPARISON_SCHEMA
from kanalyze.queries.json_schema.report import FINDING_SCHEMA, REPORT_SCHEMA
from kanalyze.queries.json_schema.rows import ROW_SCHEMAS

if TYPE_CHECKING:
    from kanalyze.queries.json_schema.parts import Schema

__all__ = ["SCHEMAS"]

SCHEMAS: dict[str, Schema] = {
    "report": REPORT_SCHEMA,
    "finding": FINDING_SCHEMA,
    "compare": COMPARISON_SCHEMA,
    **ROW_SCHEMAS,
}
"""Schemas by file name, without ``.schema.json``."""
