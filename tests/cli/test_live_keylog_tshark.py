"""tshark decrypts what ``kanalyze live --save --with-secrets`` writes.

Without tshark this file is not collected (see conftest.py, which says so).
"""

from __future__ import annotations

import subprocess

import pytest

from tests.support import tls_captures
from tests.support.waiting import LONG_S


@pytest.mark.parametrize("name", ["tls13-aes128gcm", "tls12-aes256cbc-sha1"])
def test_tshark_decrypts_the_saved_packets_with_the_secrets_in_the_file(name, tmp_path, run_live):
    target = tmp_path / "saved.pcapng"
    keys = str(tls_captures.keylog(name))
    argv = ["-", "--keylog", keys, "--with-secrets", "--save", str(target), "--save-slower-than"]
    done = run_live(*argv, "0ms", data=tls_captures.path(name).read_bytes())
    assert done.returncode == 0
    decode_as = ["-d", "tcp.port==9094,tls", "-d", "tls.port==9094,kafka"]
    fields = ["-Y", "kafka.correlation_id", "-T", "fields", "-e", "kafka.correlation_id"]
    tshark = subprocess.run(
        ["tshark", "-r", str(target), *decode_as, *fields],
        capture_output=True,
        check=True,
        text=True,
        timeout=LONG_S,
    )
    numbers = {int(word) for word in tshark.stdout.replace(",", " ").split()}
    assert len(numbers) > 5
    assert numbers <= {request.correlation_id for request in tls_captures.read_by_tshark(name)}
