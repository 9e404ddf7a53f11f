"""Values from elsewhere (files, other processes), checked against a model that is declared beside what they become.

A model is a dataclass whose fields are made by :func:`of`. What does not fit is a :class:`Fault`: one sentence that
names the field, what is there, and what was expected.
"""

from __future__ import annotations

import dataclasses
import json
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_64 = 2**64 - 1
MOST_TIME = 2**63 - 1  # of ns, either way
_MOST_DIGITS = 400  # of a number: to read one takes the square of that
_CHECK = "check"
_CONTROLS = {code: "�" for code in (*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000))}


class Fault(ValueError):
    """A value is wrong; the text names the field by its path."""

    def __init__(self, found: str, expected: str = "") -> None:
        super().__init__(found)
        self._path, self._found, self._expected = "", found, expected

    def below(self, step: str) -> Fault:
        """Return the fault as seen from one level up."""
        self._path = step + self._path
        return self

    def __str__(self) -> str:
        """Return the sentence, without a capital and a full stop: who read the value puts its name before it."""
        text = f"{self._path.lstrip('.')} {self._found}".strip()
        return f"{text}; expected: {self._expected}" if self._expected else text


def shown(value: object) -> str:
    """Return a value's text, cut and without characters that a terminal obeys."""
    return printable(reprlib.repr(value))


def printable(text: str) -> str:
    """Return a text without characters that a terminal obeys, or that can't be written in UTF-8."""
    return text if text.isprintable() else text.translate(_CONTROLS)


@dataclass(frozen=True)
class Check:
    """The values that a field may have.

    Attributes
    ----------
    expected : str
        That, in words.
    take : callable
        Returns what becomes of a value; Fault when it does not fit.
    """

    expected: str
    take: Callable[[Any], Any]


def _leaf(expected: str, fits: Callable[[Any], bool], become: Callable[[Any], Any] = lambda value: value) -> Check:
    def take(value: Any) -> Any:
        if not fits(value):
            raise Fault(f"is {shown(value)}", expected)
        return become(value)

    return Check(expected, take)


def whole(least: int = 0, most: int = MOST_64) -> Check:
    """A whole number within bounds."""
    return _leaf(f"a whole number from {least} to {most}", lambda value: type(value) is int and least <= value <= most)


def number(least: float = -1e18, most: float = 1e18) -> Check:
    """A number within bounds: neither infinite nor none."""

    def fits(value: Any) -> bool:
        return type(value) in (int, float) and least <= value <= most

    return _leaf(f"a number from {least:g} to {most:g}", fits, float)


def text(most: int = 1 << 16) -> Check:
    """A text of so many characters at most; what a terminal obeys is replaced."""
    return _leaf(
        f"a text of at most {most} characters",
        lambda value: isinstance(value, str) and len(value) <= most,
        printable,
    )


def flag() -> Check:
    """True or false."""
    return _leaf("true or false", lambda value: isinstance(value, bool))


def anything() -> Check:
    """A field whose value is not looked at."""
    return Check("anything", lambda value: value)


def optional(check: Check) -> Check:
    """A field that is as `check` says, or null."""
    return Check(f"{check.expected}, or null", lambda value: None if value is None else check.take(value))


def listed(check: Check, most: int) -> Check:
    """A list of so many of them at most."""
    expected = f"a list of at most {most}"

    def take(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise Fault(f"is {shown(value)}", expected)
        if len(value) > most:
            raise Fault(f"has {len(value)} entries", expected)
        taken = []
        for index, each in enumerate(value):
            try:
                taken.append(check.take(each))
            except Fault as fault:
                raise fault.below(f"[{index}]") from None
        return taken

    return Check(expected, take)


def mapped(check: Check) -> Check:
    """An object of any fields, each one of them."""

    def take(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Fault(f"is {shown(value)}", "an object")
        taken, name = {}, ""
        try:
            for name, given in value.items():
                taken[name] = check.take(given)
        except Fault as fault:
            raise fault.below(f".{printable(name)}") from None
        return taken

    return Check("an object", take)


def of(check: Check, **more: Any) -> Any:
    """Return a field of a model; `more` is as of :func:`dataclasses.field`. One with a default may be missing."""
    return dataclasses.field(metadata={_CHECK: check}, **more)


def modelled(model: type) -> Check:
    """A JSON object that becomes a model; fields that the model does not have are left."""
    fields = [field for field in dataclasses.fields(model) if _CHECK in field.metadata]
    expected = {field.name: field.metadata[_CHECK].expected for field in fields}
    takes = {field.name: field.metadata[_CHECK].take for field in fields}
    needed = [field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING]

    def take(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Fault(f"is {shown(value)}", "an object")
        taken, name = {}, ""
        try:
            for name, given in value.items():
                if name in takes:
                    taken[name] = takes[name](given)
        except Fault as fault:
            raise fault.below(f".{name}") from None
        for name in needed:
            if name not in taken:
                raise Fault(f"has no {name!r}", expected[name])
        return model(**taken)

    return Check("an object", take)


def check_fields(value: Any) -> None:
    """Check a model that was not made of JSON, as :func:`modelled` would have; not the fields of its fields."""
    for field in dataclasses.fields(value):
        check = field.metadata.get(_CHECK)
        if check is not None and not isinstance(getattr(value, field.name), list):
            try:
                setattr(value, field.name, check.take(getattr(value, field.name)))
            except Fault as fault:
                raise fault.below(f".{field.name}") from None


# --- JSON ---


def _number(kind: type) -> Callable[[str], Any]:
    def read(digits: str) -> Any:
        if len(digits) > _MOST_DIGITS:
            raise ValueError(f"a number of {len(digits)} digits")
        return kind(digits)

    return read


_READ = {"parse_int": _number(int), "parse_float": _number(float)}


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def parse(text: str | bytes, has_short_lines: bool = False) -> Any:
    """Return what a JSON text says; Fault when it is none, with NaN and infinity, or too deep.

    A text that `has_short_lines` has no number that takes long to read, and is read in half the time.
    """
    try:
        return json.loads(text, parse_constant=_refuse, **({} if has_short_lines else _READ))  # type: ignore[arg-type]
    except RecursionError:
        raise Fault("is nested too deeply") from None
    except ValueError as error:
        raise Fault(f"is no JSON: {error}") from None


def read_text(path: Path, most_bytes: int) -> str:
    """Return a file's text; Fault when it has more bytes, of which no more are read, or is no UTF-8."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Fault("is too large", f"at most {most_bytes} bytes")
    try:
        return data.decode()
    except ValueError as error:
        raise Fault(f"is no text in UTF-8: {error}") from None
