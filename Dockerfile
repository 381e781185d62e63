# Cairn in a container, for the CPU:
#   docker build -t cairn .
# and for GPUs:
#   docker build -t cairn --build-arg GPU=1 \
#     --build-arg BASE=nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04 .
# `docker run cairn info` tells what is in it.
ARG BASE=debian:12
ARG GPU=0

FROM ${BASE} AS build
ARG GPU
ENV CAIRN_GPU=${GPU} CAIRN_CACHE_DIR=/opt/cairn/cache
COPY . /cairn
WORKDIR /cairn
RUN tools/install.sh /opt/cairn

FROM ${BASE}
COPY --from=build /opt/cairn /opt/cairn
# ssh and sshd: the launcher reaches the other pods of a DeepSpeedJob that way.
# Certificates: `cairn data download` checks whom it talks to.
RUN apt-get update && \
    apt-get install -y --no-install-recommends \
      $(cat /opt/cairn/packages) ca-certificates openssh-client openssh-server && \
    rm -rf /var/lib/apt/lists/*
# The operator of DeepSpeedJobs starts a program called deepspeed.
RUN printf '#!/bin/sh\nexec cairn launch "$@"\n' > /usr/local/bin/deepspeed && \
    chmod +x /usr/local/bin/deepspeed && \
    ln -s /opt/cairn/bin/cairn /usr/local/bin/cairn
ENTRYPOINT ["cairn"]
CMD ["--help"]
