"""RFC 8448 section 3: keys, and the records of application data with the bytes 0 to 49."""

from __future__ import annotations

import pytest

from kanalyze.tls.keys import cipher_suite, keys_13
from kanalyze.tls.protection import record_cipher
from kanalyze.tls.records import TlsRecord, TrialRange

SUITE = cipher_suite(0x1301)
assert SUITE is not None
CLIENT = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"
SERVER = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"
SENT = {
    (CLIENT, 0): """17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9
        14 aa 66 bc ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2
        97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4""",
    (SERVER, 1): """17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25
        d0 5f 82 aa 1b 36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2
        1c 00 47 c2 ab f3 32 54 0d d0 32 e1 67 c2 95 5d""",
}


@pytest.mark.parametrize(
    ("secret", "key", "iv"),
    [
        (
            "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
            "dbfaa693d1762c5b666af5d950258d01",
            "5bd3c71b836e0b76bb73265f",
        ),
        (
            "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
            "3fce516009c21727d0f2e4e86ee403bc",
            "5d313eb2671276ee13000b30",
        ),
        (CLIENT, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"),
        (SERVER, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"),
    ],
)
def test_keys_are_derived_from_traffic_secrets(secret: str, key: str, iv: str) -> None:
    made = keys_13(SUITE, bytes.fromhex(secret))
    assert (made.key.hex(), made.iv.hex()) == (key, iv)


@pytest.mark.parametrize(("secret", "number"), SENT)
def test_records_are_opened_and_their_number_is_computed(secret: str, number: int) -> None:
    data = bytes.fromhex(SENT[secret, number])
    sent = TlsRecord(data[:5], data[5:], 0, (0, 1), (0, 1))
    cipher = record_cipher(keys_13(SUITE, bytes.fromhex(secret)))
    opened = cipher.open(sent, number)
    assert opened is not None
    kind, content = opened
    assert (kind, bytes(content)) == (23, bytes(range(50)))
    assert cipher.open(sent, number + 1) is None
    assert cipher.number(sent, TrialRange(0, 1 << 48, 1)) == number
    assert cipher.number(sent, TrialRange(number + 1, 1 << 48, 1)) is None
