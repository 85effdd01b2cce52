# kafka-forensics with its Java and its Python, from the locks: docker build -t kafka-forensics .
#
#   docker run --rm --network none -v "$PWD/logs:/logs:ro" -v postmortem:/work kafka-forensics postmortem /logs -o out
#
# `make dist-check` runs these steps in a root of its own.
ARG DEBIAN=trixie-slim

FROM debian:${DEBIAN} AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv
WORKDIR /src
COPY requirements-build.lock requirements-run.lock /src/
# What it needs, and what builds it, each by its hash.
RUN python3 -m venv /opt/kafka-forensics && /opt/kafka-forensics/bin/pip install --no-cache-dir --no-compile --require-hashes -r requirements-run.lock
RUN python3 -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY . /src
RUN /build/bin/python -m hatchling build -t wheel -d /dist && /opt/kafka-forensics/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl && rm -rf /opt/kafka-forensics/lib/python3*/site-packages/pip*

FROM debian:${DEBIAN}
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-21-jre-headless python3 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/kafka-forensics /opt/kafka-forensics
RUN useradd --uid 10001 --create-home forensics && install -d -o forensics /work
ENV PATH=/opt/kafka-forensics/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /work
ENTRYPOINT ["kafka-forensics"]
