"""Elastic jobs in every order of events; ``tests/elastic/interleavings.py`` plays larger ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from horovod.runner.elastic import membership
from horovod.runner.elastic.generation import Worker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "elastic"))

from interleavings import FoundError, explore
from world import begin


@pytest.mark.parametrize(("deaths", "joins", "removals"), [(1, 0, 1), (0, 1, 0), (2, 0, 0)])
def test_whatever_the_order_of_events_the_job_ends_well(deaths: int, joins: int, removals: int) -> None:
    outcome = explore(begin(2, deaths, joins, removals, early=0, steps=2), most=100_000)
    assert outcome.is_complete
    assert outcome.states > 900
    assert outcome.ends > 5


def _newcomers_first(survivors: Sequence[Worker], newcomers: Sequence[Worker]) -> list[Worker]:
    return [*newcomers, *survivors]


def _nothing(*_: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("where", "name", "spoiled", "sentence"),
    [
        (membership, "assign", _newcomers_first, "WrongError: commits are lost: ranks that have {"),
        (membership.Membership, "_retire", _nothing, "nothing can happen any more, and the job is not over"),
    ],
)
def test_a_fault_is_found_with_the_way_to_it(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, spoiled: Callable[..., Any], sentence: str
) -> None:
    monkeypatch.setattr(where, name, spoiled)
    with pytest.raises(FoundError) as found:
        explore(begin(2, 1, 1, 0, early=0, steps=3), most=100_000)
    first, *way = str(found.value).splitlines()
    assert first.startswith(sentence)
    assert any(" dies " in line or " slot comes" in line for line in way)
