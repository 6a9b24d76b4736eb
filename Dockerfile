# Images of the three services and of the command line; docs/deploy.md says how to build and run them.
#
#   docker build --build-arg BASE=python:3.11-slim-bookworm@sha256:... --target ledger --tag countersign-ledger .
#
# BASE has no default: a digest that nobody has checked pins nothing. Take the one that your registry shows, and note it.
ARG BASE

FROM ${BASE} AS builder
ARG BASE
SHELL ["/bin/sh", "-euc"]
RUN case "${BASE}" in *@sha256:*) ;; *) echo "BASE must be pinned by its digest: NAME@sha256:..." >&2; exit 1 ;; esac
WORKDIR /src
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN python -m venv /opt/build && \
    /opt/build/bin/python -m pip install --no-cache-dir --require-hashes --no-deps -r requirements/build.txt && \
    python -m venv --without-pip /opt/countersign && \
    /opt/build/bin/python -m pip --python /opt/countersign/bin/python install \
        --no-cache-dir --require-hashes --no-deps --only-binary :all: -r requirements/runtime.txt
COPY pyproject.toml README.md ./
COPY tools/build_hook.py tools/generate.py tools/
COPY protos protos
COPY countersign countersign
COPY adapter_svc adapter_svc
COPY ledger_svc ledger_svc
COPY verifier_svc verifier_svc
RUN PATH="/opt/build/bin:${PATH}" python -m pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /dist . && \
    /opt/build/bin/python -m pip --python /opt/countersign/bin/python install --no-cache-dir --no-index --no-deps /dist/*.whl

# The command line also writes reports: charts, tables and pages.
FROM builder AS builder-cli
COPY requirements/report.txt requirements/
RUN /opt/build/bin/python -m pip --python /opt/countersign/bin/python install \
        --no-cache-dir --require-hashes --no-deps --only-binary :all: -r requirements/report.txt

# What all images are: no compiler, no build tools, nothing that their user may change but the state folder.
FROM ${BASE} AS runtime
ENV PATH=/opt/countersign/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/countersign && \
    ! command -v cc && ! command -v gcc && ! command -v ld
WORKDIR /var/lib/countersign
USER 65532:65532

FROM runtime AS service
COPY --from=builder /opt/countersign /opt/countersign
ENV COUNTERSIGN_HEALTH_CA=/run/secrets/ca.crt \
    COUNTERSIGN_HEALTH_CERTIFICATE=/run/secrets/client.crt \
    COUNTERSIGN_HEALTH_KEY=/run/secrets/client.key

FROM service AS ledger
# Names of files, not what is in them.
# hadolint ignore=DL3064
ENV COUNTERSIGN_LEDGER_LISTEN=0.0.0.0:7301 \
    COUNTERSIGN_LEDGER_ACCESS_FILE=/run/secrets/access.toml \
    COUNTERSIGN_LEDGER_TLS_CERTIFICATE=/run/secrets/tls.crt \
    COUNTERSIGN_LEDGER_TLS_KEY=/run/secrets/tls.key \
    COUNTERSIGN_LEDGER_TLS_CLIENT_CA=/run/secrets/ca.crt \
    COUNTERSIGN_HEALTH_ADDRESS=tls:localhost:7301 \
    COUNTERSIGN_HEALTH_SERVICE=countersign.ledger.v1.LedgerService
EXPOSE 7301
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["countersign-health"]
ENTRYPOINT ["countersign-ledger"]

FROM service AS adapter
# Names of files, not what is in them.
# hadolint ignore=DL3064
ENV COUNTERSIGN_ADAPTER_LISTEN=0.0.0.0:7302 \
    COUNTERSIGN_ADAPTER_ACCESS_FILE=/run/secrets/access.toml \
    COUNTERSIGN_ADAPTER_TLS_CERTIFICATE=/run/secrets/tls.crt \
    COUNTERSIGN_ADAPTER_TLS_KEY=/run/secrets/tls.key \
    COUNTERSIGN_ADAPTER_TLS_CLIENT_CA=/run/secrets/ca.crt \
    COUNTERSIGN_ADAPTER_LEDGER=tls:ledger:7301 \
    COUNTERSIGN_ADAPTER_LEDGER_TOKEN_FILE=/run/secrets/ledger.token \
    COUNTERSIGN_ADAPTER_LEDGER_CA=/run/secrets/ca.crt \
    COUNTERSIGN_ADAPTER_LEDGER_CERTIFICATE=/run/secrets/client.crt \
    COUNTERSIGN_ADAPTER_LEDGER_KEY=/run/secrets/client.key \
    COUNTERSIGN_HEALTH_ADDRESS=tls:localhost:7302 \
    COUNTERSIGN_HEALTH_SERVICE=countersign.adapter.v1.AdapterService
EXPOSE 7302
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["countersign-health"]
ENTRYPOINT ["countersign-adapter"]
# A turn under way may take as long as its route allows: stop with at least as much time.
CMD ["--drain-seconds", "300"]

FROM service AS verifier
# Names of files, not what is in them.
# hadolint ignore=DL3064
ENV COUNTERSIGN_VERIFIER_LISTEN=0.0.0.0:7303 \
    COUNTERSIGN_VERIFIER_ACCESS_FILE=/run/secrets/access.toml \
    COUNTERSIGN_VERIFIER_TLS_CERTIFICATE=/run/secrets/tls.crt \
    COUNTERSIGN_VERIFIER_TLS_KEY=/run/secrets/tls.key \
    COUNTERSIGN_VERIFIER_TLS_CLIENT_CA=/run/secrets/ca.crt \
    COUNTERSIGN_VERIFIER_LEDGER=tls:ledger:7301 \
    COUNTERSIGN_VERIFIER_LEDGER_TOKEN_FILE=/run/secrets/ledger.token \
    COUNTERSIGN_VERIFIER_LEDGER_CA=/run/secrets/ca.crt \
    COUNTERSIGN_VERIFIER_LEDGER_CERTIFICATE=/run/secrets/client.crt \
    COUNTERSIGN_VERIFIER_LEDGER_KEY=/run/secrets/client.key \
    COUNTERSIGN_HEALTH_ADDRESS=tls:localhost:7303 \
    COUNTERSIGN_HEALTH_SERVICE=countersign.verifier.v1.VerifierService
EXPOSE 7303
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["countersign-health"]
ENTRYPOINT ["countersign-verifier"]

FROM runtime AS cli
COPY --from=builder-cli /opt/countersign /opt/countersign
# Names of files, not what is in them.
# hadolint ignore=DL3064
ENV COUNTERSIGN_LEDGER=tls:ledger:7301 \
    COUNTERSIGN_TOKEN_FILE=/run/secrets/ledger.token \
    COUNTERSIGN_CA=/run/secrets/ca.crt \
    COUNTERSIGN_CERTIFICATE=/run/secrets/client.crt \
    COUNTERSIGN_KEY=/run/secrets/client.key
ENTRYPOINT ["countersign"]
CMD ["--help"]
