#!/bin/bash
#BSUB -n 8 -R "span[ptile=4]"
# bsub <lsf.sh: where there is a jsrun it starts the ranks, one for each GPU if IBM's CSM counts them. Give it other
# resource sets with --binding-args="-n 8 -a 1 -c 7 -g 1"; --gloo takes ssh instead.
horovodrun python train.py
