# The program alone, for Kubernetes and for Docker: docker build -t millrace/millrace:0.1.0 . (or `make image`)
#
# It runs as uid 65532 with a read-only root file system, and writes to /var/cache/millrace and /tmp only.
ARG BUILD_IMAGE=debian:12
ARG RUN_IMAGE=debian:12-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /millrace
COPY scripts/deps.sh scripts/
RUN BUILD=image scripts/deps.sh
COPY . .
ARG JOBS=
RUN cmake --preset release \
    && cmake --build --preset release --target millrace -j ${JOBS:-$(nproc)} \
    && strip -o /usr/bin/millrace build/release/bin/millrace
# The packages of the libraries that it links; dpkg knows some below /usr/lib as /lib, where that is a link.
RUN ldd /usr/bin/millrace | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' >/libraries \
    && while read -r library; do \
        dpkg-query --search "$library" 2>/dev/null || dpkg-query --search "/usr$library" || exit 1; \
    done </libraries | sed 's/:.*//' | sort -u >/packages && cat /packages

FROM ${RUN_IMAGE}
COPY --from=build /packages /usr/share/doc/millrace/packages
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates $(cat /usr/share/doc/millrace/packages) \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && mkdir -p /var/cache/millrace && chown 65532:65532 /var/cache/millrace
COPY LICENSE /usr/share/doc/millrace/
COPY --from=build /usr/bin/millrace /usr/bin/millrace
LABEL org.opencontainers.image.title="Millrace" \
      org.opencontainers.image.description="Input pipelines for training jobs, run by a pool of workers" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
# rpc of dispatchers, of workers; metrics and health
EXPOSE 5050 5051 9090
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/millrace"]
CMD ["--help"]
