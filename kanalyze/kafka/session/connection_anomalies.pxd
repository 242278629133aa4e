# The C types of connection_anomalies.py.
from kanalyze.kafka.framing.frame cimport Frame
from kanalyze.kafka.session.exchange cimport Exchange


cpdef frame_anomaly(kind, tcp, Frame frame, int direction, detail=*, Exchange exchange=*)
