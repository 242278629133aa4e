"""Write a transformed capture, to look at it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.disorder.catalog import BEYOND, TRANSFORMATIONS
from tests.support.disorder.variants import altered

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments_given: Sequence[str] | None = None) -> None:
    known = TRANSFORMATIONS | BEYOND
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.disorder", epilog="; ".join(known)
    )
    parser.add_argument("capture", help="name of a capture of the repository, or a path")
    parser.add_argument("transformation", help="one, or several with + between them")
    parser.add_argument("out", type=Path, help="a file; a folder where there are several files")
    arguments = parser.parse_args(arguments_given)
    names = [name.strip() for name in arguments.transformation.split("+")]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no such transformation: {', '.join(unknown)}")
    files = altered(arguments.capture, *names).files
    if len(files) == 1:
        arguments.out.write_bytes(files[0])
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(files):
        (arguments.out / f"{number:03}").write_bytes(data)


if __name__ == "__main__":
    main()
