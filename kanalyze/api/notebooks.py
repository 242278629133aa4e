"""A report as people have it in a notebook: shown as the page, its tables as data frames.

In: a report, and how its page is made. Out: a dict that notebooks can show.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kanalyze.spec.report import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd


class Report(dict[str, Any]):
    """The report that ``kanalyze report --json`` writes, without ``kanalyze_version``.

    Units are in the names: ``_ns`` are Unix times or durations in ns, ``_bytes`` are bytes; other
    times are ISO 8601.

    A notebook shows the HTML page, which works offline. Tables are attributes too, as pandas data
    frames: ``report.clients`` is that of ``report["clients"]``, with a column ``latency_ns.p99``
    for what is inside ``latency_ns``.
    """

    def __init__(self, values: Mapping[str, Any], page: Callable[[], bytes] | None) -> None:
        """Take a report; ``page`` makes its page, of captures that can be read again."""
        super().__init__(values)
        self._make_page = page
        self._page: bytes | None = None

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What is wrong with clients, brokers or network."""
        found: list[dict[str, Any]] = self["findings"]
        return found

    def page(self) -> bytes:
        """Return the report as one HTML file, as ``kanalyze report --html`` writes it.

        The first call reads the captures again, and raises what that raises. Of captures that can
        be read only once, such as a pipe, the page has the report as text.
        """
        if self._page is None:
            if self._make_page is None:
                from kanalyze.render.html import plain_page

                self._page = plain_page(self).encode()
            else:
                self._page = self._make_page()
        return self._page

    def _repr_html_(self) -> str:
        """Return the page in a frame that may run its own script, and nothing else."""
        page = escape(self.page().decode())
        style = "width: 100%; height: 50rem; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return a table as a data frame; raises AttributeError for other names."""
        if name not in TABLES:
            raise AttributeError(f"a report has no table {name!r}")
        import pandas as pd

        return pd.json_normalize(self[name] or [])

    def __dir__(self) -> list[str]:
        """Return the names of the tables too, for completion."""
        return [*super().__dir__(), *TABLES]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a plain dict for pickle and copies: captures may be elsewhere by then."""
        return dict, (dict(self),)
