#!/usr/bin/env bash
# Writes the Slurm scripts and Kubernetes manifests of the recipes, which
# `cairn launch` prints. Run it in the folder that holds recipes/.
set -euo pipefail

kubernetes() { # NAME NODES GPUS
  cairn launch --print-kubernetes --kind deepspeedjob --nnodes "$2" --num_gpus "$3" \
    --job-name "${1//./-}" --container-image registry/cairn:1 --pvc megatron:/data --workdir /data \
    --queue default --priority 50 --env CUDA_DEVICE_MAX_CONNECTIONS=1 \
    pretrain gpt "@recipes/$1/flags" > "recipes/$1/job.yaml"
}

slurm() { # NAME NODES GPUS
  cairn launch --print-slurm --nnodes "$2" --num_gpus "$3" \
    --job-name "$1" --time 2-00:00:00 --container-image registry/cairn:1 --pvc /data:/data --workdir /data \
    --max-restarts 3 --env CUDA_DEVICE_MAX_CONNECTIONS=1 \
    pretrain gpt "@recipes/$1/flags" > "recipes/$1/job.sh"
}

kubernetes gpt-125m 1 1
kubernetes gpt-1.3b 1 4
kubernetes gpt-13b 2 8
kubernetes gpt-175b 128 8
slurm gpt3-175b 128 8
slurm gpt-530b 315 8
slurm gpt-1t 384 8
