"""Makes tests/kafka/vectors/: messages written by Kafka's own serializer, with Kafka's own JSON.

    python tools/vectors/make.py

Builds the Java program beside it against each release of kafka-clients named in RELEASES, runs it,
and writes one compressed file of JSON lines for each release, with the message versions that no
release before it in the list can write. The same releases give the same files.

Needs Java 17 and Maven (Debian packages openjdk-17-jdk-headless and maven). What Maven fetches and
builds is kept in $KANALYZE_CACHE, or in a folder below the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "tests" / "kafka" / "vectors"
RELEASES = ("4.4.0", "4.0.1", "3.9.2")
"""4.0 is the last with version 0 of the share groups' messages, 3.9 with what 4.0 took away."""
TIMEOUT_S = 900.0


def main() -> int:
    """Make all files; return the exit status."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            print(f"{program} is missing", file=sys.stderr)
            return 2
    TARGET.mkdir(parents=True, exist_ok=True)
    known: set[tuple[object, ...]] = set()
    for release in RELEASES:
        lines = [line for line in vectors(release) if identity(line) not in known]
        known.update(identity(line) for line in lines)
        path = TARGET / f"kafka-clients-{release}.jsonl.xz"
        path.write_bytes(compressed(lines))
        print(f"{path.name}: {len(lines)} vectors, {path.stat().st_size} bytes")
    return 0


def vectors(release: str) -> list[str]:
    """Return the lines that the Java program writes for a release."""
    folder = built(release)
    classpath = os.pathsep.join((str(folder / "classes"), str(folder / "jars" / "*")))
    command = ["java", "-Dfile.encoding=UTF-8", "-cp", classpath, "vectors.Main"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
    return done.stdout.decode("utf-8").splitlines()


def built(release: str) -> Path:
    """Return the folder with the program's classes and the release's jars."""
    folder = cache_folder() / f"vectors-{release}-{digest()}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [
            *("mvn", "-q", "-B", "-f", str(HERE / "pom.xml")),
            *(f"-Dkafka.version={release}", f"-Dbuild.folder={folder}"),
            *("compile", "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"),
        ]
        subprocess.run(command, check=True, timeout=TIMEOUT_S)
        (folder / ".complete").touch()
    return folder


def cache_folder() -> Path:
    """Return ``$KANALYZE_CACHE``, or a folder below the user's cache folder."""
    chosen = os.environ.get("KANALYZE_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "kanalyze"


def digest() -> str:
    """Return a short text that differs when the program differs."""
    files = [HERE / "pom.xml", *sorted((HERE / "src").rglob("*.java"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def identity(line: str) -> tuple[object, ...]:
    """Return what says which message version a vector is of: names change, keys don't."""
    vector = json.loads(line)
    name, key = vector["name"], vector.get("api_key")
    what = name if key is None else (key, name.endswith("Request"))
    return what, vector["version"]


def compressed(lines: list[str]) -> bytes:
    """Compress the lines, as well as LZMA can."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    sys.exit(main())
