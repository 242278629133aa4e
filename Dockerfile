# docker build -t kanalyze .
# docker run --rm -v "$PWD:/captures:ro" kanalyze report broker.pcap
# docker run --rm -i kanalyze report - < broker.pcap
#
# To write files, mount a folder that user 10001 may write to, or add --user "$(id -u):$(id -g)".
# To read archives with Spark, build with EXTRAS=spark on an image that has Java 17 or later.
#
# A live capture needs the network of the host, and CAP_NET_RAW. Docker gives capabilities to no
# user but root, so it runs as root that has this one alone:
#
#   docker run --rm -it --network host --user 0 --cap-drop ALL --cap-add NET_RAW \
#       kanalyze live -i eth0 --port 9092
#
# Without them it reads what another program captures: tcpdump -w - ... | docker run -i kanalyze live -
# --metrics serves on the container's own loopback unless it has the network of the host.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=live,tls
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /source
# A wheel of our own, for this Python: those for all are slower.
RUN python -m venv /opt/kanalyze \
    && KANALYZE_REQUIRE_COMPILED=1 /opt/kanalyze/bin/pip install --no-cache-dir "/source[${EXTRAS}]"

FROM python:${PYTHON}-slim
# Filters of live captures are compiled by libpcap.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libpcap0.8 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin kanalyze
COPY --from=build /opt/kanalyze /opt/kanalyze
ENV PATH="/opt/kanalyze/bin:${PATH}"
WORKDIR /captures
USER 10001
ENTRYPOINT ["kanalyze"]
CMD ["--help"]
