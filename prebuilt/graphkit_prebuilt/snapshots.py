"""`Snapshot`: what an agent has been told so far, as plain data, and how it is taken and loaded.

A snapshot is a copy for the program to keep. What an agent stores by itself, superstep by superstep, is its thread
(`agent.graph`). Names and form: Strands 1.62, whose snapshots are read too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from graphkit.errors import SnapshotException
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.managers.manager import ConversationManager
from graphkit_prebuilt.state import AgentState

if TYPE_CHECKING:
    from graphkit_prebuilt.content import SystemContentBlock
    from graphkit_prebuilt.thread import AgentThread

VERSION: Final = "1.0"
PRESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "session": ("messages", "state", "conversation_manager_state", "interrupt_state", "model_state")
}
FIELDS: Final = (*PRESETS["session"], "system_prompt")


@dataclass
class Snapshot:
    """`data` has a value for each field that was taken, `app_data` is the program's own. `scope` says what it is of
    ("agent"), `schema_version` in which form, `created_at` (ISO 8601, UTC) since when it is there."""

    scope: str
    schema_version: str
    data: dict[str, Any]
    app_data: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat().replace("+00:00", "Z"))

    def validate(self) -> None:
        """Raises `SnapshotException` for one that cannot be loaded into an agent."""
        if self.schema_version != VERSION:
            raise SnapshotException(
                f"a snapshot of version {self.schema_version!r} cannot be read, only {VERSION!r}"
            )
        if self.scope != "agent":
            raise SnapshotException(f"a snapshot of scope {self.scope!r} is none of an agent")

    def to_dict(self) -> dict[str, Any]:
        """The fields by name: plain values, as far as the messages are."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Snapshot:
        """The snapshot that `to_dict` was made of. Raises `SnapshotException` for a dict of something else."""
        try:
            snapshot = cls(**given)
        except TypeError as error:
            raise SnapshotException(f"Snapshot.from_dict() was given {given!r:.100}") from error
        snapshot.validate()
        return snapshot


class Snapshots:
    """An agent of which snapshots are taken, of the conversation of the request that runs here, else of its own."""

    conversation_manager: Any
    if TYPE_CHECKING:
        system_prompt: Any

        @property
        def system_prompt_content(self) -> list[SystemContentBlock] | None: ...
        @property
        def _here(self) -> AgentThread: ...

    def take_snapshot(
        self,
        *,
        preset: str | None = None,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        app_data: Mapping[str, Any] | None = None,
    ) -> Snapshot:
        """A copy of fields of the agent: those of `preset` ("session") and of `include`, without those of `exclude`.

        They are "messages", "state", "conversation_manager_state", "interrupt_state" and "model_state", which make
        "session", and "system_prompt". Raises `SnapshotException` for no field, for an unknown one, and for
        "interrupt_state" while questions are open: what a paused turn goes on from is in its thread, and a session
        takes it anywhere.
        """
        thread = self._here
        wanted = _fields(preset, include or (), exclude or ())
        if "interrupt_state" in wanted and (thread.interrupts or thread.halts):
            raise SnapshotException(
                "the agent waits for answers to its questions, or is halted, and a snapshot cannot hold what it goes "
                "on from: use a session_manager, or take it with exclude=['interrupt_state']"
            )
        take: dict[str, Callable[[], Any]] = {
            "messages": lambda: copied(list(thread.messages)),
            "state": thread.state.get,
            "conversation_manager_state": lambda: self._manager_state(thread),
            "interrupt_state": lambda: {"interrupts": {}, "context": {}, "activated": False},
            "model_state": dict,
            "system_prompt": lambda: copied(self.system_prompt_content),
        }
        data = {name: take[name]() for name in FIELDS if name in wanted}
        return Snapshot(
            scope="agent", schema_version=VERSION, data=data, app_data=copied(dict(app_data or {}))
        )

    def load_snapshot(self, snapshot: Snapshot) -> None:
        """Have what a snapshot holds; what it does not hold stays. Between requests it is stored at once, and leaves an
        unfinished turn behind with its questions.

        Raises `SnapshotException` for a snapshot of another kind or version, or one that was taken by Strands while
        questions were open; and `ConcurrencyException` while a request runs elsewhere on the conversation.
        """
        snapshot.validate()
        data = copied(snapshot.data)
        if (data.get("interrupt_state") or {}).get("activated"):
            raise SnapshotException(
                "the agent that this snapshot was taken of waits for answers to its questions, which it does not hold"
            )
        thread, writes = self._here, {}
        state = data.get("conversation_manager_state")
        if state is not None and isinstance(self.conversation_manager, ConversationManager):
            writes = self.conversation_manager.handed_over(state)
        with thread.tentative():
            if "messages" in data:
                thread.messages = data["messages"]
            if "state" in data:
                thread.state = AgentState(data["state"])
            thread.store(writes)
        if "system_prompt" in data:
            self.system_prompt = data["system_prompt"]

    def _manager_state(self, thread: AgentThread) -> dict[str, Any]:
        manager = self.conversation_manager
        return copied(manager.state_in(thread.values)) if isinstance(manager, ConversationManager) else {}


def _fields(preset: str | None, include: Iterable[str], exclude: Iterable[str]) -> set[str]:
    if preset is not None and preset not in PRESETS:
        raise SnapshotException(f"there is no preset {preset!r}; there is {', '.join(map(repr, PRESETS))}")
    for name in (*include, *exclude):
        if name not in FIELDS:
            raise SnapshotException(f"a snapshot has no field {name!r}; there are {', '.join(FIELDS)}")
    found = {*(PRESETS[preset] if preset is not None else ()), *include} - set(exclude)
    if not found:
        raise SnapshotException("no field is to be taken: give a preset, or fields with include=")
    return found
