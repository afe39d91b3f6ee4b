# sopan in a container: `docker build -t sopan .`, and docs/deploy.md for how to run it.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
# What `sopan --version` says of the sources, since no repository is copied:
# --build-arg SOPAN_COMMIT=$(git log -1 --abbrev=7 --format=%h) --build-arg SOPAN_COMMIT_DATE=$(git log -1 --format=%cs)
ARG SOPAN_COMMIT
ARG SOPAN_COMMIT_DATE
RUN cargo build --release --locked -p sopan && strip target/release/sopan

# The same Debian, and so the same C library.
FROM debian:bookworm-slim
# Without certificate authorities no API over https can be checked. The two directories are what a volume takes over.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 65532 -g 65532 -m 700 /var/lib/sopan /var/cache/sopan
COPY --from=build /src/target/release/sopan /usr/local/bin/sopan
# A number, so that Kubernetes sees that it is not root.
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
# Asks the admin port, which nobody reaches from outside.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD sopan status || exit 1
ENTRYPOINT ["sopan"]
# Within a container 127.0.0.1 is the container itself, so it listens for all who reach that.
CMD ["serve", "--config", "/etc/sopan/sopan.yaml", "--listen", "0.0.0.0:8000", "--open"]
