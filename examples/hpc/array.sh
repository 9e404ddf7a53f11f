#!/bin/bash
# sbatch --array=0-3 array.sh, with PBS qsub -J 0-3 array.sh, with SGE qsub -t 1-4 -cwd array.sh: each task is a rank,
# the first one on MASTER_ADDR. The number is in SLURM_ARRAY_TASK_ID or PBS_ARRAY_INDEX, from 0, or in SGE_TASK_ID, from
# 1; with another batch system export RANK. Slurm and SGE tell WORLD_SIZE, too.
export WORLD_SIZE=4 MASTER_ADDR=host1 MASTER_PORT=29500
exec python train.py
