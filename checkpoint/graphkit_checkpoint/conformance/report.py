"""What the suite found, by capability."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.verdicts import CheckFailedError

Outcome = Literal["passed", "failed", "not declared"]


@dataclass(frozen=True, slots=True)
class Result:
    """One check. `detail` has the end of a failure's traceback, or why a capability is not declared."""

    capability: Capability
    name: str
    outcome: Outcome
    detail: str = ""


class Count(NamedTuple):
    passed: int
    failed: int
    not_declared: int


@dataclass(frozen=True, slots=True)
class Report:
    """All results, in the order of the suite; as text a table by capability, with every failure below it."""

    subject: str
    results: tuple[Result, ...]

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.outcome == "failed"]

    @property
    def ok(self) -> bool:
        """Whether checks were run and none failed. What is not declared was not run."""
        return not self.failures and any(result.outcome == "passed" for result in self.results)

    @property
    def run(self) -> int:
        """How many checks were run."""
        return sum(result.outcome != "not declared" for result in self.results)

    def raise_if_failed(self) -> None:
        """Raises `CheckFailedError`, with the report for a message."""
        if not self.ok:
            raise CheckFailedError(str(self))

    def counts(self) -> dict[Capability, Count]:
        """By capability, in the order of the suite."""
        chapters = dict.fromkeys(result.capability for result in self.results)
        return {
            capability: _count(result for result in self.results if result.capability is capability)
            for capability in chapters
        }

    def __str__(self) -> str:
        counts = self.counts()
        width = max(map(len, (*counts, "capability"))) + 2
        lines = [f"{self.subject}: {self.run} checks, {len(self.failures)} failed", ""]
        lines.append(f"{'capability':{width}}passed  failed")
        for capability, count in counts.items():
            lines.append(f"{capability:{width}}{count.passed:6}{count.failed:8}{self._missing(capability)}")
        for failure in self.failures:
            lines += ["", f"FAILED {failure.capability}: {failure.name}", _indented(failure.detail)]
        return "\n".join(lines)

    def _missing(self, capability: Capability) -> str:
        reasons = [
            result.detail
            for result in self.results
            if result.capability is capability and result.outcome == "not declared"
        ]
        if not reasons:
            return ""
        return f"  {len(reasons)} not declared: {'; '.join(dict.fromkeys(reasons))}"


def _count(results: Iterable[Result]) -> Count:
    outcomes = [result.outcome for result in results]
    return Count(*(outcomes.count(outcome) for outcome in ("passed", "failed", "not declared")))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
