"""Where a check of a saver works, and a run as the engine would make it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.crew import Crew
from graphkit_checkpoint.conformance.damage import Damage, Kind, Row
from graphkit_checkpoint.conformance.suite import Bench, Lab
from graphkit_checkpoint.conformance.verdicts import equal, same_state, that
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, Saved, ThreadState, Tip

State = Mapping[str, Any]
SAMPLES: Final = 8
"""How many checkpoints of a long run are loaded one by one."""
LONG: Final = "long" * 30
"""Too much to be kept in the row of a checkpoint."""


class SaverBench(Bench[BaseCheckpointSaver]):
    """The bench of savers, with a crew of processes that is there from the first check that needs it."""

    def __init__(self, make: Any, without: Any, damage: Damage | None) -> None:
        super().__init__(make, without)
        self.damage = damage
        self._crew: Crew | None = None

    @property
    def crew(self) -> Crew:
        if self._crew is None:
            self._crew = Crew(self.make)
            self.stack.callback(self._crew.close)
        return self._crew


class SaverLab(Lab[BaseCheckpointSaver]):
    """The lab of savers. Threads that it names are deleted when it closes, tokens forgotten."""

    def __init__(self, bench: SaverBench) -> None:
        super().__init__(bench)
        self.saver = bench.shared
        self._bench = bench
        self._threads: list[str] = []
        self._tokens: list[str] = []
        self._runs: list[Run] = []

    @property
    def crew(self) -> Crew:
        return self._bench.crew

    def thread_id(self, ending: str = "") -> str:
        """The id of a thread that nobody else uses."""
        return self.remember(self.name() + ending)

    def remember(self, thread_id: str) -> str:
        """Delete this thread at the end of the check."""
        self._threads.append(thread_id)
        return thread_id

    def token(self) -> str:
        """The token of a run of this process."""
        self._tokens.append(new_token())
        return self._tokens[-1]

    def foreign_token(self) -> str:
        """The token of a run of another host, of which nobody here knows whether it lives."""
        return f"another-host/1/1/{self.name().rpartition('-')[2]}"

    def checkpoint_id(self) -> str:
        """Ids that sort in the order in which they are made."""
        return f"{next(self._ids):08}"

    def run(
        self,
        thread_id: str | None = None,
        *,
        saver: BaseCheckpointSaver | None = None,
        at: str | None = None,
        token: str | None = None,
    ) -> Run:
        """A run that has opened its thread (default: a new one), and has claimed nothing yet."""
        run = Run(self, saver or self.saver, thread_id or self.thread_id(), at=at, token=token)
        self._runs.append(run)
        return run

    def begun(self) -> Run:
        """A run with a list `log` and a dict `map` that have rows of their own and may grow."""
        run = self.run()
        run.step({"log": [LONG], "map": {"long": LONG}})
        return run

    def finished(self, states: int = 3, saver: BaseCheckpointSaver | None = None) -> Run:
        """A run that has ended, with so many checkpoints: `n` counts, `log` grows, and `k0`, `k1` in turn."""
        run = self.run(saver=saver)
        for number in range(states):
            run.append("log", number, **{"n": number, f"k{number % 2}": number})
        run.release()
        return run

    def damage(
        self, thread_id: str, kind: Kind, change: Any, saver: BaseCheckpointSaver | None = None
    ) -> Row:
        """Replace the newest row of this kind; returns the row as it was."""
        seen: list[Row] = []

        def watched(row: Row) -> Row | None:
            seen.append(row)
            changed: Row | None = change(row)
            return changed

        assert self._bench.damage is not None  # the capability is not declared otherwise
        self._bench.damage(saver or self.saver, thread_id, kind, watched)
        return seen[0]

    def close(self) -> None:
        for token in self._tokens:
            forget_token(token)
        # What a check left behind it is not judged by.
        for run in self._runs:
            if run.token not in self._tokens:  # nobody else would take it for dead
                with suppress(Exception):
                    self.saver.commit(Commit(run.thread_id, "", run.token, Tip(), release=True))
        for thread_id in self._threads:
            with suppress(Exception):
                self.saver.delete_thread(thread_id)
        super().close()


@dataclass(slots=True)
class Claim:
    """What the commits of one run share, its nested graphs included."""

    token: str
    thread: ThreadState | None
    made: bool = False


class Run:
    """One run on one thread: its first commit claims. Remembers what every checkpoint must be read as."""

    def __init__(
        self,
        lab: SaverLab,
        saver: BaseCheckpointSaver,
        thread_id: str,
        *,
        at: str | None = None,
        token: str | None = None,
    ) -> None:
        self.lab, self.saver, self.thread_id, self.namespace = lab, saver, thread_id, ""
        self.opening = saver.open(thread_id, "", at)
        self.claim = Claim(token or lab.token(), self.opening.thread)
        self.seen: dict[str, dict[str, Any]] = {}
        self._stand(self.opening.saved)

    def _stand(self, saved: Saved | None) -> None:
        self.tip = saved.tip if saved else Tip()
        self.values: dict[str, Any] = dict(saved.values) if saved else {}
        self.last = saved.checkpoint.id if saved else None
        self.number = saved.checkpoint.step if saved else -1

    @property
    def token(self) -> str:
        return self.claim.token

    def nested(self, namespace: str) -> Run:
        """The same run inside of a nested graph."""
        inner: Run = object.__new__(Run)
        inner.lab, inner.saver, inner.thread_id = self.lab, self.saver, self.thread_id
        inner.namespace, inner.claim, inner.opening = namespace, self.claim, self.opening
        inner.seen = {}
        inner._stand(self.saver.load(self.thread_id, namespace))
        return inner

    def go_to(self, checkpoint_id: str) -> None:
        """Stand at another checkpoint: what is written next is a fork."""
        saved = self.saver.load(self.thread_id, self.namespace, checkpoint_id)
        if saved is None:
            raise LookupError(f"checkpoint {checkpoint_id!r} of thread {self.thread_id!r} is gone")
        self._stand(saved)

    # Commits

    def point(self, changed: State | None = None, **fields: Any) -> Checkpoint:
        """The next checkpoint of this run, not written yet."""
        settings: dict[str, Any] = {
            "id": fields.pop("id", None) or self.lab.checkpoint_id(),
            "parent_id": self.last,
            "step": self.number + 1,
            "source": "loop",
            "created_at": 1000.0 + self.number,
            "changed": dict(changed or {}),
        }
        return Checkpoint(**{**settings, **fields})

    def draft(self, *points: Checkpoint, **fields: Any) -> Commit:
        """A commit of these checkpoints, not written yet."""
        claims = not self.claim.made
        settings: dict[str, Any] = {
            "claims": claims,
            "acquire": self.claim.thread if claims else None,
            "checkpoints": points,
        }
        return Commit(self.thread_id, self.namespace, self.token, self.tip, **{**settings, **fields})

    def write(self, *points: Checkpoint, **fields: Any) -> None:
        """Commit these checkpoints."""
        self.saver.commit(self.draft(*points, **fields))
        self.written(*points)

    def written(self, *points: Checkpoint) -> None:
        """These checkpoints have been committed."""
        self.claim.made = True
        for point in points:
            self.values = {**self.values, **point.changed}
            for channel in point.cleared:
                self.values.pop(channel, None)
            self.last, self.number = point.id, point.step
            self.seen[point.id] = deepcopy(self.values)

    def step(self, changed: State | None = None, **fields: Any) -> str:
        """Commit one checkpoint; returns its id."""
        point = self.point(changed, **fields)
        self.write(point)
        return point.id

    def append(self, channel: str, *items: Any, **changed: Any) -> str:
        """Commit a checkpoint that adds items to a list, saying so."""
        value = [*self.values.get(channel, []), *items]
        return self.step({**changed, channel: value}, extended={channel: len(items)})

    def set_keys(self, channel: str, items: Mapping[Any, Any]) -> str:
        """Commit a checkpoint that sets keys of a dict, saying so."""
        value = {**self.values.get(channel, {}), **items}
        return self.step({channel: value}, extended={channel: list(items)})

    def record(self, *pending: Pending, **fields: Any) -> None:
        """Commit records beside the last checkpoint."""
        self.write(**{"at": self.last or "", "pending": pending, **fields})

    def forget(self, *records: tuple[str, str, str]) -> None:
        self.write(at=self.last or "", forget=records)

    def release(self) -> Run:
        """Give the thread back."""
        self.write(release=True)
        return self

    def abandon(self) -> None:
        """End without giving the thread back, as a process that dies does."""
        forget_token(self.token)

    # Looking

    def head(self, saver: BaseCheckpointSaver | None = None) -> Saved:
        return loaded(saver or self.saver, self.thread_id, None, self.namespace)

    def check_all(self, saver: BaseCheckpointSaver | None = None, thread_id: str | None = None) -> None:
        """Every checkpoint of this run is read as it was written, as a history and, of many some, by itself."""
        saver, thread_id = saver or self.saver, thread_id or self.thread_id
        for checkpoint_id in _some(list(self.seen)):
            found = loaded(saver, thread_id, checkpoint_id, self.namespace)
            same_state(found.values, self.seen[checkpoint_id], f"state at {checkpoint_id}")
        history = {saved.checkpoint.id: saved.values for saved in saver.history(thread_id, self.namespace)}
        for checkpoint_id, values in self.seen.items():
            that(checkpoint_id in history, f"checkpoint {checkpoint_id} is missing from the history")
            same_state(history[checkpoint_id], values, f"state at {checkpoint_id} in the history")


def _some(names: list[str]) -> list[str]:
    """First, last, and about so many in between."""
    return sorted({*names[:: max(1, len(names) // SAMPLES)], *names[-2:]})


def loaded(
    saver: BaseCheckpointSaver, thread_id: str, checkpoint_id: str | None = None, namespace: str = ""
) -> Saved:
    """The checkpoint, which must be there."""
    saved = saver.load(thread_id, namespace, checkpoint_id)
    if saved is None:
        raise LookupError(f"checkpoint {checkpoint_id or '(head)'} of thread {thread_id!r} is gone")
    return saved


def ids(history: Iterable[Saved]) -> list[str]:
    return [saved.checkpoint.id for saved in history]


def records(pending: Sequence[Pending]) -> list[tuple[str, str, str, Any]]:
    return [(record.task_id, record.kind, record.key, record.value) for record in pending]


def check_gone(saver: BaseCheckpointSaver, thread_id: str, namespaces: Collection[str] = ("",)) -> None:
    """Nothing of the thread can be seen."""
    that(thread_id not in saver.thread_ids(), "the thread is still listed")
    equal(tuple(saver.usage(thread_id)), (0, 0, 0, 0), "usage")
    equal(saver.find(thread_id), (None, None), "find()")
    for namespace in namespaces:
        equal(list(saver.history(thread_id, namespace)), [], f"history of namespace {namespace!r}")
