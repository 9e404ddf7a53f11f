#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
# sbatch slurm_horovodrun.sh: for what horovodrun alone has, such as elastic jobs. srun stands for ssh: its step on each
# host is horovodrun's agent, which may use all CPUs that the job has there.
hosts=hosts.$SLURM_JOB_ID
scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/ slots=$SLURM_NTASKS_PER_NODE/" >"$hosts"
step="srun --overlap --ntasks=1 --ntasks-per-node=1 --cpus-per-task=$SLURM_CPUS_ON_NODE"
agent="sh -c 'exec $step --nodelist=\$0 sh -c \"\$1\"'" # called as AGENT HOST COMMAND
horovodrun -np "$SLURM_NTASKS" --hostfile "$hosts" --rsh-agent "$agent" python train.py
