from __future__ import annotations

from kanalyze.net import kinds


def test_registries_do_not_run_into_one_another():
    names = ("LLC", "PPP_PROTOCOL", "FAMILY", "IP_VERSION", "IP_PROTOCOL", "GRE")
    starts = [getattr(kinds, name) for name in names]
    assert all(start & 0xFFFF == 0 for start in starts)
    assert len(set(starts)) == len(starts)


def test_what_stands_in_ip_is_above_what_does_not():
    below = (kinds.LLC, kinds.PPP_PROTOCOL, kinds.FAMILY, kinds.IP_VERSION)
    assert all(start + 0xFFFF < kinds.TRANSPORT for start in below)
    assert kinds.GRE >= kinds.TRANSPORT <= kinds.IP_PROTOCOL
