# The programs of a static image on a base with git, ssh, sh and unzip: engines of the service download modules with git,
# and workers execute provisioners. It is for amd64 and arm64, as the base and the static image are. Two builds are not
# identical: the packages of the base change.
#
#   docker build -f tools.Dockerfile --build-arg BASE=debian:bookworm-slim \
#     --build-arg STATIC=millipede-worker:0.2.0 --build-arg PROGRAM=worker -t millipede-worker-tools:0.2.0 .
#
# The base is a Debian, or a system with these programs; ./base makes one with debootstrap, without a registry.
ARG BASE=debian:bookworm-slim
ARG STATIC=millipede-worker:latest

FROM ${STATIC} AS static

FROM ${BASE}
ARG PROGRAM=worker
RUN if ! command -v git || ! command -v ssh || ! command -v unzip || ! [ -s /etc/ssl/certs/ca-certificates.crt ]; then \
      apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates git openssh-client unzip && rm -rf /var/lib/apt/lists/*; \
    fi && \
    echo "millipede:x:65532:" >> /etc/group && \
    echo "millipede:x:65532:65532:Millipede:/var/lib/millipede:/bin/sh" >> /etc/passwd && \
    install -d -m 0700 -o 65532 -g 65532 /var/lib/millipede && ln -s "/usr/local/bin/${PROGRAM}" /usr/local/bin/millipede
COPY --from=static /usr/local/bin/ /usr/local/bin/
USER 65532:65532
ENV HOME=/var/lib/millipede
WORKDIR /var/lib/millipede
VOLUME ["/var/lib/millipede", "/tmp"]
ENTRYPOINT ["/usr/local/bin/millipede"]
