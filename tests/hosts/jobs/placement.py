"""Tells every rank's numbers and the name of its host."""

import socket

from checks import tell
from horovod.common.basics import HorovodBasics

hvd = HorovodBasics()
hvd.init()
tell(
    f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}, "
    f"cross {hvd.cross_rank()} of {hvd.cross_size()}, {socket.gethostname()}, {hvd.is_homogeneous()}"
)
hvd.shutdown()
