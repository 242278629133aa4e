from __future__ import annotations

from kanalyze.capture.formats.parser import corrupt
from kanalyze.model.anomalies import AnomalyKind


def test_a_corrupt_record_is_an_anomaly_with_a_text():
    assert corrupt("why") == corrupt("why")
    assert (corrupt("why").kind, corrupt("why").detail) == (AnomalyKind.CAPTURE_CORRUPT, "why")
