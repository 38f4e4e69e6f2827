"""Checks, the chapters they are collected in, and how they are run.

A check is a function with one argument, the `Lab`, in which it opens what it needs; the first sentence of
its docstring is its name. Checks share the storage, not their threads: every lab has names of its own,
and gives back what it has opened. Whatever a check raises is its failure.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from graphkit_checkpoint.conformance.capabilities import OPTIONAL, Capability
from graphkit_checkpoint.conformance.report import Result

Case = TypeVar("Case")
FRAMES_SHOWN: Final = 4
OWN_FILES: Final = ("suite.py", "verdicts.py", "contextlib.py")


class Closable(Protocol):
    def close(self) -> None: ...


SubjectT = TypeVar("SubjectT", bound=Closable)
LabT = TypeVar("LabT", bound="Lab[Any]")


@dataclass(frozen=True, slots=True)
class Check(Generic[LabT]):
    """One thing that must be so. `needs` are capabilities beyond that of its chapter."""

    capability: Capability
    name: str
    function: Callable[[LabT], None]
    needs: tuple[Capability, ...] = ()

    def missing(self, without: Mapping[Capability, str]) -> str | None:
        """Why the check cannot be run, if a capability that it needs is not declared."""
        return next((without[need] for need in (self.capability, *self.needs) if need in without), None)


class Chapter(Generic[LabT]):
    """The checks of one capability; a decorator that adds one."""

    def __init__(self, capability: Capability) -> None:
        self.capability = capability
        self.checks: list[Check[LabT]] = []

    def __call__(self, function: Callable[[LabT], None]) -> Callable[[LabT], None]:
        return self.needing()(function)

    def needing(self, *needs: Capability) -> Callable[[Callable[[LabT], None]], Callable[[LabT], None]]:
        """For a check that takes further capabilities."""

        def add(function: Callable[[LabT], None]) -> Callable[[LabT], None]:
            self.checks.append(Check(self.capability, _sentence(function), function, needs))
            return function

        return add

    def each(
        self, cases: Mapping[str, Case]
    ) -> Callable[[Callable[[LabT, Case], None]], Callable[[LabT, Case], None]]:
        """For a function that is a check with each of these cases, named where its docstring has `{case}`."""

        def add(function: Callable[[LabT, Case], None]) -> Callable[[LabT, Case], None]:
            for name, case in cases.items():
                sentence = _sentence(function).replace("{case}", name)
                self.checks.append(Check(self.capability, sentence, _with(function, case)))
            return function

        return add


def _with(function: Callable[[LabT, Case], None], case: Case) -> Callable[[LabT], None]:
    return lambda lab: function(lab, case)


def _sentence(function: Callable[..., object]) -> str:
    sentence = " ".join((function.__doc__ or "").split())
    if not sentence:
        raise TypeError(f"the check {function.__qualname__} has no docstring to name it")
    return sentence.rstrip(".")


class Bench(Generic[SubjectT]):
    """What all checks of one report share: how to open the subject, one such object, and a supply of names."""

    def __init__(self, make: Callable[..., Any], without: Mapping[Capability, str]) -> None:
        self.make = make
        self.without = without
        self.prefix = f"conformance-{os.getpid():x}-{time.time_ns():x}"
        self.numbers = itertools.count(1)
        self.stack = ExitStack()
        self.shared: SubjectT = self.open(self.stack)
        self._second: SubjectT | None = None

    @property
    def second(self) -> SubjectT:
        """Another object on the storage of the shared one; that one itself if there cannot be two."""
        if Capability.OBJECTS in self.without:
            return self.shared
        if self._second is None:
            self._second = self.open(self.stack)
        return self._second

    def open(self, stack: ExitStack, **options: Any) -> SubjectT:
        """Another object, which is closed with the stack."""
        made = self.make(**options)
        opened: SubjectT = asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made
        stack.callback(_close, opened)
        return opened

    def has(self, capability: Capability) -> bool:
        return capability not in self.without


async def _awaited(made: Any) -> Any:
    return await made


def _close(subject: Closable) -> None:
    # A check of closing has failed already if this does; here it would hide what the check found.
    with suppress(Exception):
        subject.close()


class Lab(Generic[SubjectT]):
    """Where one check works."""

    def __init__(self, bench: Bench[SubjectT]) -> None:
        self.bench = bench
        self.stack = ExitStack()
        self._ids = itertools.count(1)

    def open(self, **options: Any) -> SubjectT:
        """An object of this check's own, with these options: on the same storage if there can be several."""
        return self.bench.open(self.stack, **options)

    def other(self) -> SubjectT:
        """Another object on the storage of the shared one, for looking and writing; not to be closed."""
        return self.bench.second

    def name(self) -> str:
        """A name that nobody else uses."""
        return f"{self.bench.prefix}-{next(self.bench.numbers)}"

    def enter(self, context: AbstractContextManager[Case]) -> Case:
        return self.stack.enter_context(context)

    def close(self) -> None:
        self.stack.close()


def run(
    checks: Iterable[Check[LabT]], new_lab: Callable[[], LabT], without: Mapping[Capability, str]
) -> Iterator[Result]:
    """Run the checks one after the other."""
    for check in checks:
        reason = check.missing(without)
        if reason is not None:
            yield Result(check.capability, check.name, "not declared", reason)
        else:
            failure = _failure(check, new_lab())
            yield Result(check.capability, check.name, "failed" if failure else "passed", failure)


def _failure(check: Check[LabT], lab: LabT) -> str:
    try:
        with ExitStack() as stack:
            stack.callback(lab.close)
            check.function(lab)
    except Exception as error:
        return _told(error)
    return ""


def _told(error: Exception) -> str:
    """The last frames of a traceback, without those of the suite itself, and the error."""
    told = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in told.stack if not frame.filename.endswith(OWN_FILES)]
    told.stack = traceback.StackSummary.from_list(frames[-FRAMES_SHOWN:])
    told.__cause__ = told.__context__ = None
    lines = list(told.format(chain=False))[1:]
    return "".join(lines).rstrip()


def declared(without: Mapping[str, str] | None) -> dict[Capability, str]:
    """Checks what the caller does without. Raises ValueError for a capability that everybody must have."""
    found = {Capability(name): reason for name, reason in (without or {}).items()}
    needed = sorted(set(found) - OPTIONAL)
    if needed:
        raise ValueError(
            f"{needed[0].value!r} is no optional capability; there are {', '.join(sorted(OPTIONAL))}"
        )
    if unexplained := [name for name, reason in found.items() if not reason]:
        raise ValueError(f"say why there is no {unexplained[0].value!r}: the report shows it")
    return found


def selected(checks: Iterable[Check[LabT]], only: Collection[str] | None) -> list[Check[LabT]]:
    if only is None:
        return list(checks)
    wanted = {Capability(name) for name in only}
    return [check for check in checks if check.capability in wanted]
