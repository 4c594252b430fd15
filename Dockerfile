# Opilio in a container: `docker build -t opilio .`; with Chromium for pages that a script writes:
# `docker build --build-arg CHROMIUM=yes -t opilio .` See docs/guides/installing.md.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY . .
ARG EXTRAS=""
RUN python -m venv /opilio \
 && /opilio/bin/pip install --no-cache-dir ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim-bookworm
ARG CHROMIUM=no
# The newest versions are wanted of what reads foreign pages.
# hadolint ignore=DL3008
RUN if [ "$CHROMIUM" = yes ]; then \
      apt-get update && apt-get install -y --no-install-recommends chromium && rm -rf /var/lib/apt/lists/*; \
    fi
RUN useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin opilio \
 && install -d -o opilio -g opilio /collections
COPY --from=build /opilio /opilio
ENV PATH="/opilio/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    OPILIO_LOG_FORMAT=json
USER 10001:10001
WORKDIR /collections
VOLUME /collections
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=15s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/metrics', timeout=10)"]
ENTRYPOINT ["opilio"]
# In a container all addresses are its own; publish the port to loopback alone, as compose.yaml does.
CMD ["serve", "/collections", "--host", "0.0.0.0", "--quiet"]
