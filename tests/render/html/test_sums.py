"""The kind of an API on the page."""

from __future__ import annotations

from kanalyze.render.html.sums import kind_of


def test_the_others_have_no_kind() -> None:
    model = {"names": {"api": [{"kind": "produce"}, {"kind": ""}]}}
    assert [kind_of(model, api) for api in (0, 1, -1)] == ["produce", "", ""]
