#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
# sbatch slurm_srun.sh: srun starts the ranks, with any --mpi=, and each finds its job by Slurm's variables.
srun python train.py
