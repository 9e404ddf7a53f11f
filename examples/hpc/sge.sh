#!/bin/bash
#$ -cwd -pe mpi 8
# qsub sge.sh: over ssh. `mpi` is the name of your parallel environment.
horovodrun -np "$NSLOTS" --hostfile "$PE_HOSTFILE" python train.py
