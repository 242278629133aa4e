"""What each stage of kanalyze takes, on one capture.

    python -m benchmarks.stages CAPTURE [--rounds N]

Runs `kanalyze requests` to Parquet and `kanalyze report`, each in one process, and asks a thousand
times a second which module is at work (see `benchmarks.sampler`); a stage is some modules. Prints a
Markdown table of medians. MB are those of the capture, messages are Kafka's requests and responses.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import programs
from benchmarks.errors import output_of, run_main
from benchmarks.sampler import START_UP

STAGES = {
    "start-up": (START_UP, "cli/", "api/"),
    "read": ("capture/", "common/int_columns", "common/paths"),
    "headers": ("net/",),
    "reassembly": ("net/tcp/", "model/tcp"),
    "decryption": ("tls/", "model/tls"),
    "framing": ("kafka/framing/", "model/streams", "kafka/session/resync"),
    "decode": ("kafka/", "decoding/", "kafka/session/message_reader"),
    "pairing": ("kafka/session/", "kafka/v07/"),
    "rows": ("tables/", "common/"),
    "export": ("export/",),
    "report": ("queries/", "render/"),
    "extract": ("extraction/",),
    "anonymize": ("anonymization/",),
    "in between": ("runtime/", "common/plain_values", "spec/"),
    "batch": ("batch/", "spark/"),
    "live": ("live/",),
    "other": ("",),
}
"""What the names of each stage's modules begin with; the longest that fits holds."""
WHOLE = "all"


def stage_of(module: str) -> str:
    """Return the stage that a module is of."""
    return max(
        (len(beginning), stage)
        for stage, beginnings in STAGES.items()
        for beginning in beginnings
        if module.startswith(beginning)
    )[1]


def sample(words: list[str]) -> dict[str, float]:
    """Run a command of kanalyze once; return the seconds of each stage, and of all."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "seconds.json"
        output_of(sys.executable, "-m", "benchmarks.sampler", str(target), *words)
        modules = json.loads(target.read_text())
    seconds = dict.fromkeys([*STAGES, WHOLE], 0.0)
    for module, took_s in modules.items():
        seconds[stage_of(module)] += took_s
        seconds[WHOLE] += took_s
    return seconds


def table(name: str, runs: list[dict[str, float]], megabytes: float, messages: int) -> list[str]:
    """Return the lines of one command; stages that took nothing are left out."""
    lines = []
    for stage in runs[0]:
        took_s = statistics.median(run[stage] for run in runs)
        if took_s > 0:
            cells = [f"{took_s:.3f}", f"{megabytes / took_s:,.0f}", f"{messages / took_s:,.0f}"]
            lines.append(f"| {name} | {stage} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Print the stages of both commands."""
    parser = argparse.ArgumentParser(description="What each stage takes.")
    parser.add_argument("capture", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    source = programs.Source(arguments.capture, [])
    messages = programs.messages_of_kanalyze(source)
    megabytes = arguments.capture.stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as folder:
        commands = programs.kanalyze_commands(source, Path(folder))
        rounds = [
            {name: sample(words[1:]) for name, words in commands.items()}
            for _ in range(arguments.rounds)
        ]
    machine = programs.with_revision(programs.machine())
    print(f"{machine}; {arguments.capture.name}, {messages:,} messages\n")
    print("| command | stage | seconds | MB/s | messages/s |\n|---|---|---:|---:|---:|")
    for name in commands:
        lines = table(name, [each[name] for each in rounds], megabytes, messages)
        print("\n".join(lines))


if __name__ == "__main__":
    run_main(main)
