"""tcpdump or dumpcap, started before the first packet and stopped after the last."""

import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RecorderError
from lab.namespace import Namespace
from lab.processes import end_group, need, run, start, wait_for

BUFFER_KIB = 65536


@dataclass(frozen=True)
class Recording:
    """How a capture is taken: the interface, the file format, the clock and the ports."""

    interface: str = "lo"
    file_format: str = "pcap"
    nanoseconds: bool = True
    snaplen: int = 262144

    @property
    def program(self) -> str:
        """What takes it: tcpdump writes pcap, dumpcap writes pcapng."""
        return "tcpdump" if self.file_format == "pcap" else "dumpcap"

    def command(self, file: Path, capture_filter: str) -> list[str]:
        """The command that takes it."""
        words = [self.program, "-i", self.interface, "-s", str(self.snaplen), "-w", str(file)]
        if self.program == "dumpcap":
            return [*words, "-q", "-B", str(BUFFER_KIB // 1024), "-f", capture_filter]
        precision = "nano" if self.nanoseconds else "micro"
        words += ["-U", "-n", "-Z", "root", "-B", str(BUFFER_KIB)]
        words += [f"--time-stamp-precision={precision}"]
        if self.interface == "any":
            words += ["-y", "LINUX_SLL2"]
        return [*words, capture_filter]


@dataclass(frozen=True)
class Taken:
    """What the capturing program said at its end."""

    packets: int
    dropped: int


class Sniffer:
    """A capture in progress."""

    def __init__(self, how: Recording, namespace: Namespace, file: Path, ports: str) -> None:
        need(how.program)
        self.how = how
        self.log = file.with_suffix(".log")
        self.words = how.command(file, ports)
        self.child: subprocess.Popen[str] = start(namespace.command(self.words), log=self.log)
        sign = "listening on" if how.program == "tcpdump" else "File:"
        try:
            wait_for(f"{how.program} to listen", lambda: self._said(sign), timeout=15)
        except BaseException:
            end_group(self.child)
            raise
        time.sleep(0.3)

    def _said(self, words: str) -> bool:
        if self.child.poll() is not None:
            raise RecorderError(f"{self.how.program} ended: {self._text().strip()[-200:]}")
        return words in self._text()

    def _text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> Taken:
        """Wait until the kernel has handed everything over, then end it and read its counts."""
        time.sleep(2.0)
        self.child.send_signal(signal.SIGINT)
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            end_group(self.child)
            raise RecorderError(f"{self.how.program} did not stop") from None
        return self._counts()

    def abandon(self) -> None:
        """End it without reading anything."""
        end_group(self.child)

    def _counts(self) -> Taken:
        text = self._text()
        if self.how.program == "tcpdump":
            packets = re.search(r"(\d+) packets? captured", text)
            dropped = re.search(r"(\d+) packets? dropped by kernel", text)
        else:
            packets = re.search(r"Packets captured: (\d+)", text)
            dropped = re.search(r"received/dropped on interface '.*': \d+/(\d+)", text)
        if packets is None or dropped is None:
            raise RecorderError(f"{self.how.program} told no counts: {text.strip()[-200:]}")
        return Taken(int(packets.group(1)), int(dropped.group(1)))


def version(program: str) -> str:
    """The program's own word of its version."""
    told = run([program, "--version"], timeout=20, check=False)
    return (told.stdout or told.stderr).splitlines()[0].strip()
