"""What is fetched once and kept: Kafka's jars (by Maven) and the clients (by pip, npm and go)."""

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
AGENT = "name.neykov:extract-tls-secrets:4.0.0"


@dataclass(frozen=True)
class Tools:
    """The broker's and the clients' programs on this machine."""

    jars: Path
    python: Path
    kafka_version: str

    def java(
        self,
        main_class: str,
        *arguments: str,
        options: tuple[str, ...] = (),
        classes: Path | None = None,
    ) -> list[str]:
        """A command line for a class of Kafka's jars, in a small and fast-starting JVM.

        ``classes`` is a folder of more classes.
        """
        small = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        path = f"{self.jars}/*" if classes is None else f"{self.jars}/*:{classes}"
        return ["java", *(options or small), "-cp", path, main_class, *arguments]


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
    return Tools(jars(), _environment(), kafka_version())


def jars(pom: Path = HERE / "pom.xml") -> Path:
    """The folder of the broker's jars, or those of another pom, fetched when missing."""
    folder = cache_folder() / f"kafka-{kafka_version(pom)}-{_digest(pom)}"
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


def agent() -> Path:
    """The agent that makes a JVM write a key log, fetched when missing."""
    need("mvn")
    _, name, version = AGENT.split(":")
    file = cache_folder() / f"{name}-{version}.jar"
    if not file.exists():
        goal = ["dependency:copy", f"-Dartifact={AGENT}", f"-DoutputDirectory={cache_folder()}"]
        run(["mvn", "-q", "-B", *goal], timeout=FETCH_TIMEOUT)
    return file


def keylog_library() -> Path:
    """The library that makes a program with OpenSSL write a key log, built here."""
    return _library(HERE / "clients" / "keylog.c")


def slow_disk_library() -> Path:
    """The library that makes a program's disk slow, built here."""
    return _library(HERE / "lab" / "slow_disk.c")


def _library(source: Path) -> Path:
    need("cc")
    library = cache_folder() / f"{source.stem}-{_digest(source)}.so"
    if not library.exists():
        run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], timeout=60)
    return library


def old_clients() -> Path:
    """The Python of an environment with older clients."""
    return _environment("requirements-old.txt")


def kafkajs() -> list[str]:
    """The command line of the worker for kafkajs, which npm brings."""
    need("node", "npm")
    lock = HERE / "package-lock.json"
    folder = cache_folder() / f"kafkajs-{_digest(lock)}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in (HERE / "package.json", lock):
            shutil.copy(file, folder)
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts"]
        run(["npm", "ci", "--prefix", str(folder), *quiet], timeout=FETCH_TIMEOUT)
        (folder / ".complete").touch()
    worker = HERE / "clients" / "kafkajs_worker.cjs"
    return ["node", str(worker), str(folder / "node_modules" / "kafkajs")]


def franz() -> list[str]:
    """The command line of the worker for franz-go, built here."""
    need("go")
    sources = (HERE / "go.sum", HERE / "clients" / "franz_worker.go")
    program = cache_folder() / f"franz-{'-'.join(_digest(file) for file in sources)}"
    if not program.exists():
        build = ["go", "-C", str(HERE), "build", "-trimpath", "-buildvcs=false"]
        run([*build, "-o", str(program), "./clients"], timeout=FETCH_TIMEOUT)
    return [str(program)]


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
