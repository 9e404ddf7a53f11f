#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
# sbatch slurm_mpirun.sh: Open MPI's mpirun knows the job's hosts by itself.
mpirun -bind-to none -map-by slot python train.py
