"""What is fetched once and kept: Kafka's jars (by Maven) and the Python clients (by pip)."""

import hashlib
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.processes import need, run

HERE = Path(__file__).resolve().parent.parent
FETCH_TIMEOUT = 900.0


@dataclass(frozen=True)
class Tools:
    """The broker's and the clients' programs on this machine."""

    jars: Path
    python: Path
    kafka_version: str

    def java(self, main_class: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """A command line for a class of Kafka's jars, in a small and fast-starting JVM."""
        small = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return ["java", *(options or small), "-cp", f"{self.jars}/*", main_class, *arguments]


def cache_folder() -> Path:
    """``$KANALYZE_CACHE``, or a folder below the user's cache folder."""
    chosen = os.environ.get("KANALYZE_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "kanalyze"


def kafka_version(pom: Path = HERE / "pom.xml") -> str:
    """The broker's version, as the pom states it."""
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", pom.read_text())
    if found is None:
        raise ValueError(f"{pom.name} has no kafka.version")
    return found.group(1)


def fetch() -> Tools:
    """Bring what is not in the cache yet, and say where it is."""
    need("java", "mvn")
    return Tools(_jars(), _environment(), kafka_version())


def _jars() -> Path:
    pom = HERE / "pom.xml"
    folder = cache_folder() / f"kafka-{kafka_version()}-{_digest(pom)}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        run(
            ["mvn", "-q", "-B", "-f", str(pom), *goal, "-DincludeScope=runtime"],
            timeout=FETCH_TIMEOUT,
        )
        (folder / ".complete").touch()
    return folder


def old_clients() -> Path:
    """The Python of an environment with older clients."""
    return _environment("requirements-old.txt")


def _environment(file: str = "requirements.txt") -> Path:
    wanted = HERE / file
    folder = cache_folder() / f"clients-{_digest(wanted)}"
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(folder)], timeout=FETCH_TIMEOUT)
        run([str(python), "-m", "pip", "install", "-q", "-r", str(wanted)], timeout=FETCH_TIMEOUT)
        (folder / ".complete").touch()
    return python


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
