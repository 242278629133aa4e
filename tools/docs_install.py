"""Measures what an installation and each extra cost, and writes the table into README.md.

    python -m tools.docs_install WHEEL

Each line is an environment of its own, made by ``venv`` and filled by ``pip`` without its cache.
MB is what site-packages has more than before, pip itself left out; seconds depend on the network.
`python -m benchmarks.publish --printed install` then says that they are figures of this code.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tools.docs_pages import ROOT, between

PURPOSES = {
    "": "captures: every command but `live`, and `batch` without Spark",
    "live": "`live`: interfaces, the view, metrics",
    "tls": "decryption of TLS with a key log",
    "spark": "`batch` on Spark, a data source; needs Java 17 or later besides",
    "pandas": "`to_pandas()`",
    "polars": "`to_polars()`",
    "remote": "captures behind `http(s)://`",
    "schemas": "Avro and Protobuf in records",
    "mcp": "`mcp`: questions of an assistant",
    "otlp": "metrics that clients push",
    "delta": "`batch --table-format delta`",
    "iceberg": "`batch --table-format iceberg`",
}
BYTES_OF_MB = 1_000_000


def size_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def cost_of(wheel: Path, extra: str) -> tuple[int, float]:
    """Return the bytes and the seconds of an installation."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        before = size_bytes(Path(folder))
        begin = time.monotonic()
        target = f"{wheel}[{extra}]" if extra else str(wheel)
        pip = [str(Path(folder) / "bin" / "pip"), "install", "-q", "--no-cache-dir", target]
        subprocess.run(pip, check=True)
        return size_bytes(Path(folder)) - before, time.monotonic() - begin


def table(wheel: Path) -> str:
    """Return the table of costs: of the core in all, of an extra what it adds."""
    lines = ["| `pip install` | for | MB | s |", "|---|---|---:|---:|"]
    core_bytes = 0
    for extra, purpose in PURPOSES.items():
        taken_bytes, seconds = cost_of(wheel, extra)
        name = f"kanalyze[{extra}]" if extra else "kanalyze"
        more_bytes = taken_bytes - core_bytes
        sign = "+" if extra else ""
        core_bytes = core_bytes or taken_bytes
        mb = f"{sign}{more_bytes / BYTES_OF_MB:,.0f}"
        lines.append(f"| `{name}` | {purpose} | {mb} | {seconds:.0f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the table."""
    readme = ROOT / "README.md"
    made = table(Path(sys.argv[1]).resolve())
    text = readme.read_text(encoding="utf-8")
    readme.write_text(between(text, "install costs", made), encoding="utf-8")


if __name__ == "__main__":
    main()
