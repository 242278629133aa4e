"""The findings that reports look for in most tests: planning all queries takes half a second."""

from __future__ import annotations

FEW_FINDINGS = ("late_heartbeats", "too_large", "unanswered")

WITH_FEW_FINDINGS = f"""\
from kanalyze.queries import findings
def some(kind, all_of=findings.built_in):
    return {{k: v for k, v in all_of(kind).items() if kind != "findings" or k in {FEW_FINDINGS}}}
findings.built_in = some
"""
"""Code to run before a command in its own process, so that its reports look for these."""
