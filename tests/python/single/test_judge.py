"""What makes the judge of tests/torch_suite say no."""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

spec = importlib.util.spec_from_file_location("judge", Path(__file__).parents[2] / "torch_suite/run.py")
judge: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judge)


@pytest.mark.parametrize(
    ("ours", "gloo", "wrong"),
    [
        ({"test_a": "passed", "test_known": "failed"}, {}, {}),
        ({"test_a": "failed", "test_known": "failed"}, {"test_a": "failed"}, {}),
        ({"test_a": "skipped", "test_known": "failed"}, {}, {}),
        ({"test_a": "failed", "test_known": "failed"}, {"test_a": "passed"}, {"test_a": "text"}),
        ({"test_a": "passed", "test_known": "passed"}, {}, {"test_known": "expected to fail, and passes"}),
    ],
)
def test_what_newly_fails_or_newly_passes(
    ours: dict[str, str], gloo: dict[str, str], wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcomes(engine: str, _: Any, __: Any, only: list[str]) -> Any:
        assert engine == "roda" or only == list(gloo)
        return {name: (outcome, "text", 0.1) for name, outcome in (ours if engine == "roda" else gloo).items()}

    monkeypatch.setattr(judge, "EXPECTED", {("gloo", "test_known"): "a reason"})
    monkeypatch.setattr(judge, "outcomes_over", outcomes)
    case = judge.Case(2, "gloo", ["*"])
    _, found = judge.judge(case, Namespace(whole=False))
    assert found == {f"{name} ({case})": text for name, text in wrong.items()}


def test_patterns_that_leave_names_out() -> None:
    assert judge.is_meant("test_a", ["test_*", "!*cuda*"])
    assert not judge.is_meant("test_a_cuda", ["test_*", "!*cuda*"])
    assert not judge.is_meant("a", ["!*cuda*"])
