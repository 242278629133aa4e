"""Fields of a summary with a single value."""

from __future__ import annotations

from kanalyze.tables.requests.summaries import FIELD_NUMBERS, ExchangeSummary
from kanalyze.tables.requests.topics import TopicTable


def test_every_field_keeps_its_own_value_until_the_summary_is_cleared():
    summary = ExchangeSummary(TopicTable())
    texts = {name for name, field in FIELD_NUMBERS.items() if field < FIELD_NUMBERS["max_wait_ms"]}
    for name, field in FIELD_NUMBERS.items():
        assert (summary.number(field), summary.text(field)) == (None, None)
        if name in texts:
            summary.set_text(field, name)
        else:
            summary.set_number(field, -field)
    for name, field in FIELD_NUMBERS.items():
        assert name in texts or summary.number(field) == -field
        assert name not in texts or summary.text(field) == name
