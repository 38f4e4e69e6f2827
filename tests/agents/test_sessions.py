"""Sessions: what a fresh agent, in this process or another, finds of a conversation."""

from __future__ import annotations

import gc
import json
import os
import random
import string
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, AgentResult, tool
from graphkit.agent import NullConversationManager
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.errors import (
    AlreadyAnsweredError,
    ConcurrentUpdateError,
    InvalidThreadIdError,
    StorageCorruptError,
)
from graphkit.hooks import (
    AfterInvocationEvent,
    AgentInitializedEvent,
    BeforeToolCallEvent,
    HookProvider,
    HookRegistry,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.session import FileSessionManager, FileStorage, SessionManager
from graphkit.types import Command, Interrupt
from graphkit_prebuilt.sessions import files
from tests.agents.conftest import Answers, Door, Session, agent_of, script
from tests.conftest import response
from tests.counts import counted
from tests.faults import fork_child

GREETING = [{"role": "user", "content": [{"text": "hello"}]}]


class Named:
    """All that a session asks of an agent."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id


def texts(agent: Any) -> list[str]:
    """What was said, without calls and results."""
    return [block["text"] for message in agent.messages for block in message["content"] if "text" in block]


# --- Files --------------------------------------------------------------------------------------------


def test_a_file_session_is_one_sqlite_file(tmp_path: Path) -> None:
    agent_of("hi", session_manager=FileSessionManager("talk", tmp_path / "deep" / "er"))("hello")
    assert [file.name for file in (tmp_path / "deep" / "er").glob("*.sqlite")] == ["session_talk.sqlite"]


def test_without_a_folder_sessions_are_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    FileSessionManager(session_id="talk")
    assert (tmp_path / "graphkit" / "sessions" / "session_talk.sqlite").exists()


def test_the_form_with_a_storage_finds_the_same_session(tmp_path: Path) -> None:
    agent_of("hi", session_manager=FileSessionManager("talk", tmp_path))("hello")
    other = SessionManager(session_id="talk", storage={"snapshot": FileStorage(tmp_path)})
    assert texts(agent_of(session_manager=other)) == ["hello", "hi"]


def test_savers_are_shared_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = FileSessionManager("talk", tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    same = [FileSessionManager("talk", str(tmp_path)), FileSessionManager("talk", tmp_path / "link")]
    same.append(FileSessionManager("talk", "."))
    assert all(manager.saver is first.saver for manager in same)
    assert FileSessionManager("other", tmp_path).saver is not first.saver


def test_a_session_whose_file_was_removed_begins_anew(tmp_path: Path) -> None:
    agent_of("hi", session_manager=FileSessionManager("talk", tmp_path))("hello")
    for file in tmp_path.iterdir():
        file.unlink()
    agent = agent_of("new", session_manager=FileSessionManager("talk", tmp_path))
    assert agent.messages == []
    agent("again")
    assert texts(agent_of(session_manager=FileSessionManager("talk", tmp_path))) == ["again", "new"]


def test_many_sessions_do_not_keep_many_files_open(tmp_path: Path) -> None:
    for number in range(files.KEPT_OPEN + 8):
        FileSessionManager(str(number), tmp_path)
    gc.collect()
    mine = [path for path in files._savers if path.startswith(os.path.realpath(tmp_path))]
    assert len(mine) == files.KEPT_OPEN
    open_files = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert {path for path in open_files if path.endswith(".sqlite")} >= set(mine)
    assert not any(path.endswith("session_0.sqlite") for path in open_files)


def test_an_agent_keeps_its_file_open(tmp_path: Path) -> None:
    agent = agent_of("one", "two", session_manager=FileSessionManager("talk", tmp_path))
    agent("hello")
    for number in range(files.KEPT_OPEN + 8):
        FileSessionManager(str(number), tmp_path)
    gc.collect()
    assert FileSessionManager("talk", tmp_path).saver is agent.session_manager.saver
    agent("more")
    assert texts(agent) == ["hello", "one", "more", "two"]


def test_threads_that_open_a_session_at_once_share_its_saver(tmp_path: Path) -> None:
    managers: list[FileSessionManager] = []
    gate = threading.Barrier(8)

    def open_it() -> None:
        gate.wait(60)
        managers.append(FileSessionManager("talk", tmp_path))

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({id(manager.saver) for manager in managers}) == 1 and len(managers) == 8


@pytest.mark.parametrize("content", [b"this is no database, and never was one at all", b"\0" * 4096])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "session_talk.sqlite").write_bytes(content)
    with pytest.raises(StorageCorruptError, match="session_talk"):
        FileSessionManager("talk", tmp_path)


# --- Names --------------------------------------------------------------------------------------------

BAD_IDS: list[Any] = ["", None, 5, True, b"x", "a/b", "..\\x", "../x", "a\0b", "x" * 256, "\ud800", ["x"]]


@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
def test_a_bad_session_id_is_refused_everywhere(tmp_path: Path, bad: Any) -> None:
    for make in (
        partial(FileSessionManager, bad, tmp_path),
        partial(SessionManager, InMemorySaver(), bad),
        partial(SessionManager, session_id=bad, storage={"snapshot": FileStorage(tmp_path)}),
    ):
        with pytest.raises(InvalidThreadIdError):
            make()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".", "..", "a b", "ä", "日本", 'what?*"<>|:%', "%3F", "CON", "x" * 230])
def test_any_other_id_has_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    agent_of("hi", session_manager=FileSessionManager(name, tmp_path))("hello")
    assert texts(agent_of(session_manager=FileSessionManager(name, tmp_path))) == ["hello", "hi"]
    (file,) = tmp_path.glob("*.sqlite")
    assert not set('<>:"|?*') & set(file.name)


def test_two_ids_never_share_a_file() -> None:
    assert files.name_of("a?") != files.name_of("a%3F")


def test_an_id_that_is_too_long_for_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidThreadIdError, match="SessionManager"):
        FileSessionManager("ä" * 200, tmp_path)
    assert SessionManager(InMemorySaver(), "ä" * 200).session_id == "ä" * 200


def test_each_agent_of_a_session_has_a_thread_of_its_own(tmp_path: Path) -> None:
    manager = FileSessionManager("talk", tmp_path)
    assert manager.thread_of(Named("default")) == "talk"
    assert manager.thread_of(Named("critic")) == "talk/critic"
    with pytest.raises(InvalidThreadIdError):
        manager.thread_of(Named("x" * 255))
    agent_of("one", session_manager=manager)("hello")
    agent_of("two", session_manager=manager, agent_id="critic")("hello")
    assert texts(agent_of(session_manager=manager)) == ["hello", "one"]
    assert texts(agent_of(session_manager=manager, agent_id="critic")) == ["hello", "two"]
    assert manager.saver.thread_ids() == ["talk", "talk/critic"]


def test_a_manager_needs_one_place(tmp_path: Path) -> None:
    place = {"snapshot": FileStorage(tmp_path)}
    for wrong in (
        partial(SessionManager, session_id="x"),
        partial(SessionManager, InMemorySaver(), "x", storage=place),
    ):
        with pytest.raises(TypeError, match="a saver or a storage"):
            wrong()
    for storage in ({}, {"other": FileStorage(tmp_path)}, {"snapshot": str(tmp_path)}, {**place, "x": 1}):
        with pytest.raises(ValueError, match="snapshot"):
            SessionManager(session_id="x", storage=storage)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        FileStorage(None)  # type: ignore[arg-type]


# --- Going on -----------------------------------------------------------------------------------------


def test_a_fresh_agent_goes_on_with_the_conversation(session: Session, door: Door) -> None:
    door(session.agent("one", "two", "three"), "first")
    door(session.agent(), "second")
    agent = session.agent()
    door(agent, "third")
    assert texts(agent) == ["first", "one", "second", "two", "third", "three"]
    assert [len(request.messages) for request in session.model.requests] == [1, 3, 5]


def test_what_was_stored_counts_and_not_what_an_agent_would_begin_with(session: Session, door: Door) -> None:
    first = session.agent("one", "two", messages=GREETING, state={"n": 1}, system_prompt="Be kind.")
    first.state.set("n", 2)
    door(first, "more")
    other = session.agent(
        messages=[{"role": "user", "content": [{"text": "unseen"}]}],
        state={"n": 3, "m": 4},
        system_prompt="Be brief.",
    )
    assert texts(other) == ["hello", "more", "one"]
    assert other.state.get() == {"n": 2}
    door(other, "again")
    assert [request.system_prompt for request in session.model.requests] == ["Be kind.", "Be brief."]


@tool
def delete(path: str) -> str:
    """Delete a file.

    Args:
        path: Which.
    """
    DELETED.append(path)
    return f"{path} is gone"


DELETED: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_deleted() -> Iterator[None]:
    DELETED.clear()
    yield


class Approval(HookProvider):
    """Asks before each deletion, once and for all if the answer is "t"."""

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event: BeforeToolCallEvent) -> None:
        path = event.tool_use["input"]["path"]
        if event.agent.state.get("trusted"):
            return
        answer = event.interrupt("approval", reason={"path": path})
        if answer == "t":
            event.agent.state.set("trusted", True)
        elif answer != "y":
            event.cancel_tool = f"not {path}"


def deleting(*paths: str) -> list[ToolCall]:
    return [ToolCall("delete", {"path": path}) for path in paths]


def asked(result: AgentResult) -> list[Interrupt]:
    """The questions of a result; there are some."""
    assert result.stop_reason == "interrupt" and result.interrupts
    return list(result.interrupts)


def asking(session: Session, *turns: Any) -> Agent:
    return session.agent(*turns, tools=[delete], hooks=[Approval()])


def test_a_fresh_agent_finds_and_answers_the_open_questions(session: Session, door: Door) -> None:
    first = asked(door(asking(session, deleting("a", "b"), "done"), "clean up"))
    there = asking(session)
    assert [question.reason for question in there.interrupts] == [{"path": "a"}, {"path": "b"}]
    assert [question.id for question in there.interrupts] == [question.id for question in first]
    assert texts(there) == ["clean up"], "no call without its result"
    result = door(there, [response(question, "y") for question in there.interrupts])
    assert result.stop_reason == "end_turn"
    assert sorted(DELETED) == ["a", "b"]
    assert len(session.model.requests) == 2
    assert asking(session).interrupts == []


def test_the_answers_given_so_far_are_kept(session: Session, door: Door) -> None:
    first = asked(door(asking(session, deleting("a", "b", "c"), "done"), "clean up"))
    left = [first[0].id, first[2].id]
    partly = asked(door(asking(session), [response(first[1], "y")]))
    assert [question.id for question in partly] == left
    assert DELETED == ["b"]
    again = asked(asking(session)([response(first[1], "y")]))
    assert [question.id for question in again] == left
    with pytest.raises(AlreadyAnsweredError):
        door(asking(session), [response(first[1], "n")])
    result = door(asking(session), Command(resume={first[0].id: "n", first[2].id: "y"}))
    assert result.stop_reason == "end_turn"
    assert DELETED == ["b", "c"]
    results = [block["toolResult"] for block in asking(session).messages[-2]["content"]]
    assert [found["content"][0]["text"] for found in results] == ["not a", "b is gone", "c is gone"]


def test_trust_is_kept_in_the_state(session: Session, door: Door, answers: Answers) -> None:
    first = door(asking(session, deleting("a"), "one", deleting("b"), "two"), "first")
    assert door(asking(session), answers(first, "t")).stop_reason == "end_turn"
    agent = asking(session)
    assert agent.state.get("trusted") is True
    assert door(agent, "second").stop_reason == "end_turn"
    assert DELETED == ["a", "b"]


def test_state_that_was_set_between_requests_is_kept_by_the_next(session: Session, door: Door) -> None:
    agent = session.agent("one", "two")
    agent.state.set("a", [1])
    door(agent, "hello")
    assert session.agent().state.get("a") == [1]


# --- Another process ----------------------------------------------------------------------------------


def manager_of(kind: str, place: str) -> SessionManager:
    if kind == "file":
        return FileSessionManager("talk", place)
    return SessionManager(PostgresSaver(place), "talk")


def in_another_process(kind: str, place: str, step: str) -> Any:
    """One step of a conversation, by an agent that knows nothing but the session."""
    agent = Agent(
        model=ScriptedModel([deleting("a", "b") if step == "ask" else "done"]),
        tools=[delete],
        hooks=[Approval()],
        session_manager=manager_of(kind, place),
        callback_handler=None,
    )
    if step == "ask":
        agent.state.set("count", 1)
        return [question.id for question in asked(agent("clean up"))]
    if step == "answer one":
        left = asked(agent([response(agent.interrupts[0], "y")]))
        return [question.id for question in left], agent.state.get("count")
    result = agent([response(question, "n") for question in agent.interrupts])
    return result.stop_reason, len(script(agent).requests), agent.messages


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    return request.param, str(tmp_path) if request.param == "file" else request.getfixturevalue(
        "postgres_url"
    )


def test_each_step_of_a_conversation_may_be_in_a_process_of_its_own(place: tuple[str, str]) -> None:
    first = fork_child(in_another_process, *place, "ask").result()
    assert len(set(first)) == 2
    left, count = fork_child(in_another_process, *place, "answer one").result()
    assert (left, count) == ([first[1]], 1)
    reason, calls, messages = fork_child(in_another_process, *place, "answer the rest").result()
    assert (reason, calls) == ("end_turn", 1)
    manager = manager_of(*place)
    assert agent_of(session_manager=manager).messages == messages
    results = [block["toolResult"]["content"][0]["text"] for block in messages[2]["content"]]
    assert results == ["a is gone", "not b"]
    manager.saver.close()
    files._savers.clear()
    files._recent.clear()


def test_a_forked_process_goes_on_with_the_session_of_its_parent(tmp_path: Path) -> None:
    agent_of("one", session_manager=FileSessionManager("talk", tmp_path))("first")
    assert fork_child(forking, str(tmp_path)).result() == 0
    assert texts(agent_of(session_manager=FileSessionManager("talk", tmp_path))) == [
        "first",
        "one",
        "second",
        "two",
    ]


def forking(folder: str) -> int:
    """In a process without threads: the child says something, the parent waits for it."""
    agent = agent_of("two", session_manager=FileSessionManager("talk", folder))
    child = os.fork()
    if child == 0:
        os._exit(0 if str(agent("second")) == "two\n" else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- Two agents ---------------------------------------------------------------------------------------


def test_two_agents_on_one_session_take_turns(session: Session, door: Door) -> None:
    left = session.agent("one", "two", "three")
    right = session.agent()
    door(left, "a")
    door(right, "b")
    door(left, "c")
    assert texts(left) == texts(right) == ["a", "one", "b", "two", "c", "three"]


def test_of_two_agents_at_the_same_time_one_is_refused(session: Session) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slowly(request: Any) -> str:
        inside.set()
        assert leave.wait(60)
        return "slow"

    slow, quick = session.agent(slowly), session.agent()
    worker = threading.Thread(target=slow, args=("a",))
    worker.start()
    try:
        assert inside.wait(60)
        with pytest.raises(ConcurrentUpdateError):
            quick("b")
    finally:
        leave.set()
        worker.join(60)
    assert texts(quick) == ["a", "slow"]
    session.model = ScriptedModel(["later"])
    session.agent()("c")
    assert texts(quick) == ["a", "slow", "c", "later"]


# --- A manager of the user's own ----------------------------------------------------------------------


class Notebook(HookProvider):
    """Keeps messages in a dict: a session manager as a user may write one."""

    def __init__(self, notes: dict[str, str]) -> None:
        self.notes = notes

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(AgentInitializedEvent, self.restore)
        registry.add_callback(AfterInvocationEvent, self.save)

    def restore(self, event: AgentInitializedEvent) -> None:
        if self.notes:
            event.agent.messages = json.loads(self.notes["messages"])

    def save(self, event: AfterInvocationEvent) -> None:
        self.notes["messages"] = json.dumps(event.agent.messages)


def test_a_session_manager_may_be_any_hook_provider(door: Door) -> None:
    notes: dict[str, str] = {}
    door(agent_of("one", session_manager=Notebook(notes)), "first")
    agent = agent_of("two", session_manager=Notebook(notes))
    door(agent, "second")
    assert texts(agent) == ["first", "one", "second", "two"]


def test_what_is_no_session_manager_is_refused() -> None:
    with pytest.raises(TypeError, match="session_manager"):
        agent_of(session_manager="talk")
    with pytest.raises(ValueError, match="not both"):
        agent_of(session_manager=SessionManager(InMemorySaver(), "x"), checkpointer=InMemorySaver())


# --- Cost --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["call", "invoke_async"], indirect=True)
def test_a_request_costs_the_same_however_long_the_conversation_is(door: Door) -> None:
    """Of an agent without a session: nothing of what was said before is packed or read again."""
    turns = [turn for _ in range(150) for turn in (deleting("a"), "done")]
    agent = agent_of(*turns, tools=[delete], conversation_manager=NullConversationManager())
    with counted() as counts:
        costs = []
        for _ in range(150):
            assert door(agent, "go").stop_reason == "end_turn"
            costs.append(counts.taken())
    assert all(unpacked == 0 for _, unpacked in costs[1:])
    assert 0 < costs[149][0] <= costs[10][0] + 50, "a number of three digits takes more than one of two"
    assert len(agent.messages) == 600


def test_a_session_takes_little_more_than_its_json(tmp_path: Path) -> None:
    """200 messages of 1 KB: user, call, result, answer."""
    chance = random.Random(6)

    def words() -> str:
        return "".join(chance.choices(string.ascii_letters, k=1000))

    @tool
    def look_up(question: str) -> str:
        """Find an answer."""
        return words()

    turns = [turn for _ in range(50) for turn in ([ToolCall("look_up", {"question": words()})], words())]
    manager = FileSessionManager("talk", tmp_path)
    agent = agent_of(
        *turns, tools=[look_up], session_manager=manager, conversation_manager=NullConversationManager()
    )
    for _ in range(50):
        agent(words())
    messages = agent.messages
    assert len(messages) == 200
    size = len(json.dumps(messages))
    manager.saver.close()
    taken = sum(file.stat().st_size for file in tmp_path.iterdir())
    print(f"{size / 200:.0f} bytes of JSON a message, {taken / size:.2f} times that on disk")
    assert taken <= 1.6 * size


def test_a_session_whose_saver_was_closed_is_opened_anew(tmp_path: Path) -> None:
    first = Agent(
        ScriptedModel(["hello"]),
        session_manager=FileSessionManager("s", str(tmp_path)),
        callback_handler=None,
    )
    first("hi")
    first.session_manager.saver.close()
    again = Agent(
        ScriptedModel(["ho"]), session_manager=FileSessionManager("s", str(tmp_path)), callback_handler=None
    )
    assert len(again.messages) == 2
    assert again("and?").stop_reason == "end_turn"
