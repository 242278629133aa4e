"""``kanalyze mcp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.mcp.server import make_server
from kanalyze.mcp.workbench import Limits, Workbench

if TYPE_CHECKING:
    import argparse


def mcp(arguments: argparse.Namespace) -> None:
    """Answer calls of tools until standard input ends; raises KanalyzeError and OSError."""
    shows_principals = arguments.with_principals
    with Workbench(
        arguments.folder,
        Limits(arguments.max_rows, arguments.max_seconds),
        anonymizes=arguments.anonymous,
        shows_principals=shows_principals,
        names=arguments.names or (),
    ) as workbench:
        make_server(workbench, shows_principals=shows_principals).run("stdio")
