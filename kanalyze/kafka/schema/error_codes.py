"""The error codes of Kafka by name.

In: a code from the wire, or a name. Out: its name or code, and whether a client may retry.
"""

from __future__ import annotations

from kanalyze.kafka.schema.error_table import ERRORS

_UNKNOWN = "UNKNOWN_"


def error_name(code: int) -> str:
    """Return the name of an error code: ``NONE`` for 0, ``UNKNOWN_<code>`` for an unknown one."""
    return ERRORS[code][0] if code in ERRORS else f"{_UNKNOWN}{code}"


def error_code(name: str) -> int | None:
    """Return the error code for which :func:`error_name` returns a name; None if there is none."""
    digits = name.removeprefix(_UNKNOWN)
    if digits != name and digits.removeprefix("-").isdecimal() and len(digits) <= len("-32768"):
        return int(digits)
    return next((code for code, (known, _) in ERRORS.items() if known == name), None)


def is_known(code: int) -> bool:
    """Whether Kafka has this error code; 0 is one of them."""
    return code in ERRORS


def is_retriable(code: int) -> bool:
    """Whether a client may send the request again; False for 0 and for unknown codes."""
    return code in ERRORS and ERRORS[code][1]
