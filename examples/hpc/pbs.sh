#!/bin/bash
#PBS -l select=2:mpiprocs=4
# qsub pbs.sh: over ssh. In the file PBS names a host once for each of its ranks.
cd "$PBS_O_WORKDIR" || exit
horovodrun -np "$(wc -l <"$PBS_NODEFILE")" --hostfile "$PBS_NODEFILE" python train.py
