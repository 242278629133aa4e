"""Captures that URLs name: parts of URLs, what is shown of them, files in stores."""

from __future__ import annotations

import functools
import gzip
import http.server
import importlib
import io
import re
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.io.stores import Stores, is_url, scrubbed, shown_url, split_url
from kanalyze.capture.merge import MergedCaptures
from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from tests.support.packets import START_NS, Packet, pcap_file

SECRET = "geheim"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"s3://key:{SECRET}@bucket/a/b.pcap?region=x", "s3://bucket/a/b.pcap"),
        (f"https://host:8443/a.pcap?X-Amz-Signature={SECRET}", "https://host:8443/a.pcap"),
        (
            f"abfs://box:{SECRET}@account.dfs.core.windows.net/a",
            "abfs://box@account.dfs.core.windows.net/a",
        ),
        (f"abfss://:{SECRET}@account/a", "abfss://account/a"),
        (f"hdfs://user:{SECRET}@node:9000/a@b", "hdfs://node:9000/a@b"),
        (f"gs://bucket?access_token={SECRET}", "gs://bucket"),
        ("file:///tmp/a%20b#1.pcap", "file:///tmp/a%20b#1.pcap"),
    ],
)
def test_credentials_are_never_shown(url, shown):
    assert shown_url(url) == shown
    assert SECRET not in shown


def test_a_url_is_distinguished_from_a_path():
    assert is_url("s3://bucket/key")
    assert is_url("abfss://x")
    for path in ("a.pcap", "/a//b", "./s3://x", "c:\\x", "://x", "-"):
        assert not is_url(path)


@given(st.text("abc:/@?*[ ]%#", max_size=30))
def test_a_url_is_rebuilt_from_its_parts(rest):
    url = f"s3://{rest}"
    parts = split_url(url)
    assert parts.with_path(parts.path) == url


def test_secrets_are_removed_from_messages():
    url = f"s3://key:{SECRET}@bucket/a.pcap?one=1x1&two=a%2Fb"
    text = f"cannot open {url}: {SECRET} of key:{SECRET}, 1x1, a/b, a%2Fb, bucket"
    assert (
        scrubbed(text, url) == "cannot open s3://bucket/a.pcap: *** of ***, ***, ***, ***, bucket"
    )


def capture(label: str, time: int, count: int = 5) -> bytes:
    return pcap_file([Packet(label.encode(), START_NS + time + i) for i in range(count)])


FILES = {
    "in ner/r0.pcap": capture("late", 200),
    "in ner/r1.pcap.gz": gzip.compress(capture("first", 0)),
    "in ner/r2.pcap": capture("middle", 100),
    "in ner/notes.txt": b"notes",
    "other/x.pcap": capture("other", 50),
}


@pytest.fixture
def folder(tmp_path):
    for name, data in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    for name, data in FILES.items():
        system.pipe(f"/{name}", data)
    yield
    system.rm("/", recursive=True)


@pytest.fixture
def server(folder):
    """The address of a web server that serves the folder; it serves no ranges."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def read(arguments: list[str]) -> list[str]:
    """The first bytes of each packet, over all captures."""
    out = []
    with MergedCaptures(find_inputs(arguments)) as merged:
        for batch in merged.batches():
            for at, size in zip(batch.offset, batch.captured_bytes, strict=True):
                out.append(bytes(batch.buffer[at : at + size]).decode())
    return list(dict.fromkeys(out))


def check_folder_glob_and_file(base: str, space: str) -> None:
    inner = f"{base}/in{space}ner"
    assert read([inner]) == ["first", "middle", "late"]
    assert read([f"{inner}/*.pcap"]) == ["middle", "late"]
    assert read([f"{base}/*/[rx][02].pcap"]) == ["middle", "late"]
    assert read([f"{base}/o*/*"]) == ["other"]
    assert read([f"{inner}/r1.pcap.gz"]) == ["first"]
    with pytest.raises(CaptureError, match=r"/gone\.pcap: no such file$"):
        read([f"{base}/gone.pcap"])
    with pytest.raises(CaptureError, match=r"ner/\*\.cap: no file has such a name$"):
        read([f"{inner}/*.cap"])


def test_files_are_read_through_pyarrow(folder):
    check_folder_glob_and_file(f"file://{folder}", "%20")


def test_files_in_stores_that_pyarrow_does_not_know_are_read_through_fsspec(memory):
    check_folder_glob_and_file("memory://", " ")


def test_files_are_read_from_a_web_server(server):
    assert read([f"{server}/in%20ner/r0.pcap"]) == ["late"]
    assert read([f"{server}/in%20ner/r1.pcap.gz?sig={SECRET}"]) == ["first"]
    assert read([f"{server}/in%20ner/"]) == ["first", "middle", "late"]
    assert read([f"{server}/in%20ner/r*.pcap", f"{server}/other/x.pcap"]) == [
        "other",
        "middle",
        "late",
    ]
    with pytest.raises(CaptureError, match=r"gone\.pcap: no such file$"):
        read([f"{server}/gone.pcap"])


@pytest.mark.usefixtures("memory")
def test_a_stored_file_is_read_from_any_offset(folder):
    data = FILES["other/x.pcap"]
    for base in (f"file://{folder}", "memory://"):
        file, size = Stores().open(f"{base}/other/x.pcap")
        assert size == len(data)
        assert file.seekable()
        assert file.read(10) == data[:10]
        assert file.seek(30) == 30
        assert file.read(size) == data[30:]
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0, io.SEEK_END)
        file.close()


def test_a_file_on_a_web_server_is_read_only_from_its_beginning(server):
    file, _ = Stores().open(f"{server}/other/x.pcap")
    assert not file.seekable()
    with pytest.raises(io.UnsupportedOperation):
        file.seek(30)
    assert file.read(10) == FILES["other/x.pcap"][:10]
    file.close()


def test_a_server_that_cannot_be_reached_is_not_a_missing_file():
    with pytest.raises(CaptureError, match=r"^http://127\.0\.0\.1:1/x\.pcap: .*connect") as caught:
        read([f"http://user:{SECRET}@127.0.0.1:1/x.pcap?sig={SECRET}"])
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_connection_that_breaks_is_an_error_of_one_line():
    class Breaking(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(capture("x", 0))

        def do_HEAD(self):
            self.do_GET()

        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Breaking) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{served.server_port}/x.pcap?sig={SECRET}"
            with pytest.raises(CaptureError, match=r"^http://.*/x\.pcap: ") as caught:
                read([url])
        finally:
            served.shutdown()
            thread.join()
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_progress_of_a_stored_file_has_its_size(folder):
    with MergedCaptures([f"file://{folder}/other/x.pcap"]) as merged:
        assert sum(len(batch) for batch in merged.batches()) == 5
    size = len(FILES["other/x.pcap"])
    assert merged.progress == (size, size)


def test_a_stored_file_is_read_in_portions_that_grow(tmp_path, monkeypatch):
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap_file([Packet(bytes(1000), i) for i in range(3000)]))
    sizes = []
    real = Stores.open

    def watch(self, url):
        file, size = real(self, url)
        inner = file._file

        class Watched:
            def read(self, count):
                sizes.append(count)
                return inner.read(count)

            def close(self):
                inner.close()

        file._file = Watched()
        return file, size

    monkeypatch.setattr(Stores, "open", watch)
    with open_capture(f"file://{path}") as reader:
        assert sum(len(batch) for batch in reader.batches()) == 3000
    assert sizes[:4] == [64 << 10, 128 << 10, 256 << 10, 512 << 10]
    assert max(sizes) <= 4 << 20


def test_a_file_system_is_opened_once(folder, monkeypatch):
    fs = importlib.import_module("pyarrow.fs")
    urls = []
    real = fs.FileSystem.from_uri

    class Counting:
        @staticmethod
        def from_uri(url):
            urls.append(url)
            return real(url)

    monkeypatch.setattr(fs, "FileSystem", Counting)
    stores = Stores()
    found = find_inputs([f"file://{folder}/in%20ner", f"file://{folder}/other/x.pcap"], stores)
    with MergedCaptures(found, stores=stores) as merged:
        assert sum(len(batch) for batch in merged.batches()) == 20
    assert len(urls) == 1


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3A"])
def test_s3_may_have_the_schemes_of_hadoop(scheme, folder, monkeypatch):
    fs = importlib.import_module("pyarrow.fs")
    urls = []

    class Local:
        @staticmethod
        def from_uri(url):
            urls.append(url)
            return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), "other/x.pcap"

    monkeypatch.setattr(fs, "FileSystem", Local)
    file, _ = Stores().open(f"{scheme}://other/x.pcap")
    with file:
        assert file.read() == FILES["other/x.pcap"]
    assert urls == ["s3://other/x.pcap"]


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
def test_azure_may_have_both_of_its_schemes(scheme):
    with pytest.raises(CaptureError, match=f"^{scheme}://box@account.somewhere/a.pcap: ") as caught:
        find_inputs([f"{scheme}://box@account.somewhere/a.pcap?wrong=1"])
    assert "Unrecognized filesystem" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"s4://key:{SECRET}@bucket/a.pcap?sig={SECRET}",
        f"gs://bucket/a.pcap?wrong={SECRET}",
        f"s3://key:{SECRET}@bucket/a.pcap?wrong={SECRET}",
        f"s3a://key:{SECRET}@bucket/a.pcap?wrong={SECRET}",
        f"abfs://box:{SECRET}@account.somewhere/a.pcap?wrong={SECRET}",
    ],
)
def test_a_url_that_cannot_be_opened_is_an_error_of_one_line_without_credentials(url):
    for argument in (url, url.replace("a.pcap", "*.pcap")):
        with pytest.raises(CaptureError) as caught:
            find_inputs([argument])
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(shown_url(argument))
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "missing"),
    [("memory://x", "fsspec.core"), ("https://x/y", "fsspec.core"), ("https://x/y", "aiohttp")],
)
def test_without_fsspec_or_its_web_the_error_says_what_to_install(url, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    scheme = url.partition(":")[0]
    text = f"{url}: reading {scheme}:// needs fsspec: pip install 'kanalyze[remote]'"
    with pytest.raises(CaptureError, match=f"^{re.escape(text)}$"):
        open_capture(url)


def test_a_scheme_with_a_package_of_its_own_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "smbprotocol", None)
    with pytest.raises(CaptureError, match=r"^smb://host/share/a\.pcap: .*smbprotocol"):
        open_capture("smb://host/share/a.pcap")


PLAIN = """
import sys
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
with MergedCaptures(find_inputs(sys.argv[1:])) as merged:
    print(sum(len(batch) for batch in merged.batches()))
print({"pyarrow", "fsspec", "lzma", "bz2", "lz4", "backports.zstd"} & set(sys.modules))
"""


def test_plain_files_import_neither_pyarrow_nor_fsspec_nor_decoders(folder):
    paths = [str(Path(folder) / name) for name in ("in ner/r0.pcap", "other/x.pcap")]
    run = subprocess.run(
        [sys.executable, "-c", PLAIN, *paths], capture_output=True, check=True, text=True
    )
    assert run.stdout.split("\n")[:2] == ["10", "set()"]
