"""The prefixes of tensors' names for optimizers of frameworks that trace programs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from horovod._roda import Request
from horovod.common.claims import Claims, prefix_of
from horovod.common.operations import ALLREDUCE, DTYPE_NAMES, Max, run, set_id_of
from horovod.common.process_sets import ProcessSet

_INT64 = DTYPE_NAMES.index("int64")
_TOTAL = 1 << 33  # a value and what it lacks to this: the largest of each add up to it only where all values are equal


class Claimant:
    """One optimizer of a framework that traces programs: a traced program keeps the number that it was traced with.

    Parameters
    ----------
    process_set : ProcessSet
        Whose members match by the names.
    """

    def __init__(self, process_set: ProcessSet) -> None:
        self._process_set = process_set
        self._claims: Claims | None = None
        self._names: set[str] = set()
        self._number = 1
        self._made_in = process_set.claims()
        self._made_in.made += 1
        self._made_as = self._made_in.made

    def prefix(self, names: Iterable[str]) -> str:
        """Return what to put before each of the names, which are claimed in the first call.

        Raises
        ------
        RuntimeError
            In the first call, where other ranks use another optimizer under these names.
        """
        claims = self._process_set.claims()
        if claims is not self._claims:
            self._claims = claims
            claims.renew(self._names, self._number)
        new = set(names) - self._names
        self._names |= new
        if new and self._number == 1:
            self._number = claims.number(new)
            place = claims.place(new, self._made_as)
            # After a join, and in elastic jobs, some ranks may have claimed their names long ago.
            if self._number > 1 and self._made_in is claims and os.environ.get("HOROVOD_ELASTIC") != "1":
                self._compare(place)
        return prefix_of(self._number)

    def _compare(self, place: int) -> None:
        if not self._process_set.included():
            return
        pair = (ctypes.c_int64 * 2)(place, _TOTAL - place)
        address, set_id = ctypes.addressof(pair), set_id_of(self._process_set)
        name = f"allreduce.{prefix_of(self._number)}place"
        request = Request(ALLREDUCE, name, _INT64, (2,), address, address, op=Max, process_set=set_id)
        if sum(run([request], 0, lambda _: pair)) not in (0, _TOTAL):
            raise RuntimeError(
                "The ranks use different optimizers at once. Optimizers whose tensors have equal names must be made, "
                "and used for the first time, in the same order on all ranks. Here others made before this one, and in "
                f"use, are {place}; elsewhere more or fewer. Or give them different names: name=, or prefix= in MXNet."
            )
