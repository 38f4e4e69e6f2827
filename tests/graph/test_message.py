"""`add_messages`: what is appended, replaced and removed, and that nothing given is changed."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated, Any, get_type_hints

import pytest
from pydantic import BaseModel, TypeAdapter

from graphkit.errors import InvalidUpdateError
from graphkit.graph.message import REMOVE_ALL_MESSAGES, MessagesState, RemoveMessage, add_messages
from graphkit_checkpoint.serde import pack, unpack


class ModelMessage(BaseModel):
    content: str
    id: str | None = None


@dataclass(frozen=True)
class FrozenMessage:
    content: str
    id: str | None = None


@dataclass(slots=True)
class SlottedMessage:
    content: str
    id: str | None = None


class PlainMessage:
    def __init__(self, content: str, id: str | None = None) -> None:
        self.content = content
        self.id = id


class ForeignRemoval:
    """What LangChain's RemoveMessage looks like from here."""

    type = "remove"

    def __init__(self, id: str) -> None:
        self.id = id


FOREIGN = pytest.mark.parametrize("kind", [ModelMessage, FrozenMessage, SlottedMessage, PlainMessage])


def user(content: str, id: str | None = None) -> dict[str, Any]:
    return {"role": "user", "content": content} | ({} if id is None else {"id": id})


def short(messages: list[Any]) -> list[str]:
    """Ids and contents of dict messages: `["1:one", …]`."""
    return [f"{message['id']}:{message['content']}" for message in messages]


def without_ids(messages: list[Any]) -> list[dict[str, Any]]:
    assert len({message["id"] for message in messages}) == len(messages)
    return [{key: item for key, item in message.items() if key != "id"} for message in messages]


ABC = [user("one", "a"), user("two", "b"), user("three", "c")]


# What a message may be


def test_dicts_stay_dicts_and_get_an_id() -> None:
    given = {"role": "user", "content": [{"text": "hi"}], "extra": 1}
    (message,) = add_messages([], [given])
    assert type(message["id"]) is str
    assert message["id"]
    assert without_ids([message]) == [given]


def test_a_dict_with_an_id_is_kept_itself() -> None:
    given = user("one", "a")
    assert add_messages([], [given])[0] is given


@pytest.mark.parametrize("id", ["", 0, 7])
def test_only_a_missing_id_is_filled_in(id: Any) -> None:
    assert add_messages([], [{"role": "user", "content": "x", "id": id}])[0]["id"] == id


def test_an_id_of_none_is_a_missing_one() -> None:
    (message,) = add_messages([], [{"id": None, "role": "user", "content": "x"}])
    assert type(message["id"]) is str


@FOREIGN
def test_foreign_messages_stay_what_they_are(kind: Any) -> None:
    given = kind(content="hi", id="a")
    assert add_messages([], [given])[0] is given


@FOREIGN
def test_foreign_messages_without_an_id_are_copied_and_get_one(kind: Any) -> None:
    given = kind(content="hi")
    (message,) = add_messages([], [given])
    assert type(message) is kind
    assert type(message.id) is str
    assert message.content == "hi"
    assert given.id is None


def test_a_string_is_what_the_user_says() -> None:
    assert without_ids(add_messages("one", ["two"])) == [user("one"), user("two")]


def test_a_pair_is_role_and_content() -> None:
    pairs: list[Any] = [("system", "be brief"), ("user", [{"text": "hi"}])]
    assert without_ids(add_messages(pairs[0], pairs[1:])) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"text": "hi"}]},
    ]


def test_two_strings_in_a_list_are_two_messages() -> None:
    assert without_ids(add_messages([], ["user", "hi"])) == [user("user"), user("hi")]


@pytest.mark.parametrize(
    ("junk", "named"),
    [
        *(
            (None, "NoneType"),
            (5, "int"),
            (("user",), "tuple"),
            (("user", "x", "y"), "tuple"),
            ((1, "x"), "tuple"),
        ),
        *(([None], "NoneType"), ([["x"]], "list"), (object(), "object")),
    ],
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_no_message_is_refused_by_its_type(junk: Any, named: str, side: str) -> None:
    with pytest.raises(InvalidUpdateError, match=named) as caught:
        add_messages(**{"left": [], "right": [], side: junk})
    assert isinstance(caught.value, ValueError)


# Appending and replacing


def test_single_messages_on_both_sides() -> None:
    assert short(add_messages(ABC[0], ABC[1])) == ["a:one", "b:two"]


def test_an_empty_change_changes_nothing() -> None:
    merged = add_messages(ABC, [])
    assert merged == ABC
    assert merged is not ABC
    assert add_messages([], []) == []


def test_equal_messages_without_ids_are_different_messages() -> None:
    assert without_ids(add_messages(add_messages([], "hi"), "hi")) == [user("hi"), user("hi")]


def test_the_same_id_replaces_in_place() -> None:
    merged = add_messages(ABC, [user("TWO", "b"), user("four", "d"), user("ONE", "a")])
    assert short(merged) == ["a:ONE", "b:TWO", "c:three", "d:four"]


def test_the_same_id_twice_in_one_change_leaves_the_last() -> None:
    assert short(add_messages(ABC[:1], [user("x", "n"), user("y", "n")])) == ["a:one", "n:y"]


def test_a_message_may_be_replaced_by_one_of_another_kind() -> None:
    replacement = ModelMessage(content="ONE", id="a")
    assert add_messages(ABC, replacement) == [replacement, *ABC[1:]]


def test_resending_the_whole_conversation_changes_nothing() -> None:
    assert add_messages(ABC, [*ABC, user("four", "d")]) == [*ABC, user("four", "d")]


def test_old_messages_without_ids_get_them() -> None:
    assert without_ids(add_messages([user("one"), user("two")], "three")) == [
        user("one"),
        user("two"),
        user("three"),
    ]


def test_the_kept_messages_are_the_same_objects() -> None:
    merged = add_messages(ABC, [user("TWO", "b"), "four"])
    assert merged[0] is ABC[0]
    assert merged[2] is ABC[2]


# Removing


def test_remove_message_deletes() -> None:
    assert short(add_messages(ABC, RemoveMessage("b"))) == ["a:one", "c:three"]
    assert short(add_messages(ABC, [RemoveMessage(id="c"), user("four", "d"), RemoveMessage(id="a")])) == [
        "b:two",
        "d:four",
    ]


def test_a_removal_may_be_repeated() -> None:
    assert short(add_messages(ABC, [RemoveMessage("b"), RemoveMessage("b")])) == ["a:one", "c:three"]


def test_a_message_of_the_same_change_can_be_removed() -> None:
    assert short(add_messages(ABC[:1], [user("new", "n"), RemoveMessage("n")])) == ["a:one"]


def test_a_message_that_comes_back_takes_its_old_place() -> None:
    assert short(add_messages(ABC, [RemoveMessage("a"), user("ONE", "a")])) == ["a:ONE", "b:two", "c:three"]


def test_removing_an_unknown_message_names_it() -> None:
    with pytest.raises(InvalidUpdateError, match="ghost"):
        add_messages(ABC, RemoveMessage("ghost"))


def test_remove_all_deletes_what_is_before_it() -> None:
    change = [user("four", "d"), RemoveMessage(REMOVE_ALL_MESSAGES), user("five", "e"), RemoveMessage("e")]
    assert add_messages(ABC, change) == []
    assert short(add_messages(ABC, change[:-1])) == ["e:five"]
    assert short(add_messages(ABC, [RemoveMessage(REMOVE_ALL_MESSAGES), *change[:-1]])) == ["e:five"]


def test_remove_all_makes_removals_before_it_pointless_and_those_after_it_unknown() -> None:
    assert add_messages(ABC, [RemoveMessage("ghost"), RemoveMessage(REMOVE_ALL_MESSAGES)]) == []
    with pytest.raises(InvalidUpdateError, match="'a'"):
        add_messages(ABC, [RemoveMessage(REMOVE_ALL_MESSAGES), RemoveMessage("a")])


def test_foreign_removals_count_as_well() -> None:
    assert short(add_messages(ABC, ForeignRemoval("b"))) == ["a:one", "c:three"]
    assert add_messages(ABC, ForeignRemoval(REMOVE_ALL_MESSAGES)) == []


def test_remove_message_is_a_frozen_value() -> None:
    removal = RemoveMessage("a")
    assert removal == RemoveMessage(id="a")
    with pytest.raises(FrozenInstanceError):
        removal.id = "b"  # type: ignore[misc]


def test_remove_message_can_be_stored_as_a_pending_write() -> None:
    assert unpack(pack([RemoveMessage("a")])) == [RemoveMessage("a")]


# The arguments, and the cost


@pytest.mark.parametrize(
    "change",
    [
        [user("TWO", "b"), user("new"), "text", ("user", "text")],
        [RemoveMessage("a"), user("four", "d")],
        [RemoveMessage(REMOVE_ALL_MESSAGES), user("x")],
    ],
    ids=["append and replace", "remove", "remove all"],
)
@pytest.mark.parametrize("left", [ABC, [*ABC, user("no id")]], ids=["with ids", "without"])
def test_neither_argument_is_changed(left: list[Any], change: list[Any]) -> None:
    before = deepcopy((left, change))
    merged = add_messages(left, change)
    merged.append(user("later"))
    assert (left, change) == before


class WatchedMessage:
    reads = 0

    @property
    def id(self) -> str:
        WatchedMessage.reads += 1
        return "watched"


def test_appending_looks_only_at_the_ends_of_a_long_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchedMessage, "reads", 0)
    long = [WatchedMessage() for _ in range(1000)]
    assert len(add_messages(long, [user("new"), ModelMessage(content="new"), "new"])) == 1003
    assert WatchedMessage.reads <= 4


# The state


def test_messages_state_declares_the_reducer() -> None:
    hint = get_type_hints(MessagesState, include_extras=True)["messages"]
    assert hint == Annotated[list[Any], add_messages]


def test_messages_state_is_a_type_that_pydantic_takes() -> None:
    """A tool that asks for its state, `Annotated[MessagesState, InjectedState]`, is described with pydantic."""
    assert TypeAdapter(MessagesState).validate_python({"messages": ["hi"]}) == {"messages": ["hi"]}


# A reducer with a format


def test_without_messages_it_is_a_reducer() -> None:
    (message,) = add_messages()([], {"role": "user", "content": "hi"})
    assert (message["role"], message["content"]) == ("user", "hi")


def test_the_format_of_openai() -> None:
    core = pytest.importorskip("langchain_core.messages")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "1234"}}
    said = [core.HumanMessage([{"type": "text", "text": "look"}, image], id="h1")]
    reducer = add_messages(format="langchain-openai")
    looked, answered = reducer(said, {"role": "assistant", "content": "seen", "id": "a1"})
    assert (type(looked), looked.id) == (core.HumanMessage, "h1")
    assert looked.content[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,1234"}}
    assert (type(answered), answered.content, answered.id) == (core.AIMessage, "seen", "a1")


def test_another_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="langchain-openai"):
        add_messages([], [], format="xml")  # type: ignore[arg-type]
