"""Print which transports Horovod's build variables ask for or leave out, a line each: ``with mpi HOROVOD_WITH_MPI``.

They are what Horovod's users set before ``pip install``. Names that are no transport of Horovod's are of the variables'
meaning at run time, and print nothing.
"""

import os

HOROVODS = ("mpi", "gloo", "nccl", "ccl", "ddl", "mlsl")
OPERATIONS = ["CPU_OPERATIONS", "GPU_OPERATIONS"] + [
    f"GPU_{collective}" for collective in ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER")
]

for transport in ("mpi", "gloo"):
    for way in ("with", "without"):
        variable = f"HOROVOD_{way}_{transport}".upper()
        if os.environ.get(variable) == "1":
            print(way, transport, variable)
for variable in (f"HOROVOD_{name}" for name in OPERATIONS):
    for transport in os.environ.get(variable, "").lower().split("+"):
        if transport in HOROVODS:
            print("with", transport, variable)
