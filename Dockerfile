# Roda's wheel with PyTorch, for CPUs:
#     tools/build_wheels.sh && docker build -t roda . && docker run --rm --shm-size=1g roda
# For GPUs, which nobody has tried: the same image, as `docker run --gpus all`. PyTorch brings CUDA and NCCL along.
ARG BASE=python:3.12-slim
FROM ${BASE}

# Workers on other hosts are reached by ssh.
RUN apt-get update && apt-get install -y --no-install-recommends openssh-client && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=torch
ARG PACKAGES="numpy scikit-learn"
COPY build/wheels/dist/roda_horovod-*.whl /tmp/
RUN pip install --no-cache-dir ${PACKAGES} "$(ls /tmp/roda_horovod-*$(uname -m).whl)[${EXTRAS}]" && rm /tmp/roda_horovod-*.whl

RUN useradd --create-home roda
USER roda
WORKDIR /home/roda
COPY examples examples
CMD ["roda-info", "--doctor"]
