"""A certificate authority for one recording, and what it signs: its keys end with the recording."""

import datetime
from pathlib import Path

from lab.processes import need, run

CONFIG = """\
[ca]
default_ca = lab
[lab]
database = {folder}/index.txt
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""
DAY = datetime.timedelta(days=1)
NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Authority:
    """The authority's files, in a folder of its own."""

    def __init__(self, folder: Path, name: str = "Lab CA") -> None:
        need("openssl")
        folder.mkdir(parents=True)
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        self._config = folder / "ca.cnf"
        self._config.write_text(CONFIG.format(folder=folder))
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        itself = ["-x509", "-days", "30", "-subj", f"/CN={name}", "-out", str(self.certificate)]
        _openssl("req", *_new_key(self._key), *itself)

    def keystore(self, name: str, *, expired: bool = False) -> Path:
        """Return a file with a new key and its certificate, as Kafka and most clients read them."""
        key, asked, signed = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        about = ["-subj", f"/CN={name}", "-addext", NAMES]
        _openssl("req", *_new_key(key), *about, "-out", str(asked))
        begin, end = (-10 * DAY, -DAY) if expired else (-DAY, 30 * DAY)
        dates = ["-startdate", _asn1_time(begin), "-enddate", _asn1_time(end)]
        words = ["-batch", "-notext", "-config", str(self._config), *dates]
        files = ["-in", str(asked), "-out", str(signed)]
        itself = ["-cert", str(self.certificate), "-keyfile", str(self._key)]
        _openssl("ca", *words, *itself, *files)
        whole = self.folder / f"{name}.keystore.pem"
        whole.write_text(key.read_text() + signed.read_text())
        return whole


def _new_key(file: Path) -> list[str]:
    return ["-newkey", "rsa:2048", "-nodes", "-keyout", str(file)]


def _openssl(*words: str) -> None:
    run(["openssl", *words], timeout=60)


def _asn1_time(from_now: datetime.timedelta) -> str:
    return (datetime.datetime.now(datetime.UTC) + from_now).strftime("%Y%m%d%H%M%SZ")
