#!/bin/bash
# Submit with: sbatch THIS_FILE
#
# One launcher per node, and not one task per GPU, so that ranks have the same
# environment, labelled output, core binding and report of the first failure as
# everywhere else, and nothing of them is left on a node.
#SBATCH --job-name=gpt-530b
#SBATCH --nodes=315
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --mem=512G
#SBATCH --time=2-00:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${hosts[0]}
CAIRN_JOB_SECRET=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
export CAIRN_JOB_SECRET
# Jobs that share a node must not share a port.
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export CUDA_DEVICE_MAX_CONNECTIONS=1

for ((restart = 0;; ++restart)); do
export CAIRN_RESTART_COUNT=$restart
code=0
srun --kill-on-bad-exit=1 --cpus-per-task=32 --container-image=registry/cairn:1 --container-workdir=/data --container-mounts=/data:/data \
  bash -c 'exec "$0" launch --node_rank="$SLURM_NODEID" --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" "$@"' \
  cairn --nnodes=315 --nproc_per_node=8 pretrain gpt @recipes/gpt-530b/flags || code=$?
if ((code == 0 || restart == 3)); then
  exit "$code"
fi
delay=$((restart < 6 ? 1 << restart : 60))
echo "exit code $code: restart $((restart + 1)) of 3 in $delay s" >&2
sleep "$delay"
done
