"""The message that a model's chunks make: whole ones, careless ones, broken ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphkit.errors import ModelStreamError
from graphkit_prebuilt.assembly import Assembly
from graphkit_prebuilt.content import texts


def start(index: int | None = None, *call: str | None) -> Any:
    begun: Any = {"toolUse": {"name": call[0], "toolUseId": call[1]}} if call else {}
    return {"contentBlockStart": _at(index, {"start": begun})}


def text(piece: Any, index: int | None = None) -> Any:
    return {"contentBlockDelta": _at(index, {"delta": {"text": piece}})}


def typed(piece: Any, index: int | None = None, **names: str) -> Any:
    return {"contentBlockDelta": _at(index, {"delta": {"toolUse": {"input": piece, **names}}})}


def thought(index: int | None = None, **pieces: Any) -> Any:
    return {"contentBlockDelta": _at(index, {"delta": {"reasoningContent": pieces}})}


def stop(index: int | None = None) -> Any:
    return {"contentBlockStop": _at(index, {})}


def end(reason: Any = "end_turn") -> Any:
    return {"messageStop": {"stopReason": reason}}


def _at(index: int | None, event: Any) -> Any:
    return event if index is None else {"contentBlockIndex": index, **event}


BEGIN: Any = {"messageStart": {"role": "assistant"}}


def assembled(*chunks: Any) -> Assembly:
    assembly = Assembly()
    for chunk in chunks:
        assembly.feed(chunk)
    assembly.finish()
    return assembly


def content(*chunks: Any) -> Any:
    return assembled(*chunks).message["content"]


def call(name: str, given: Any, call_id: str) -> Any:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}


def test_a_message_of_every_kind_of_block() -> None:
    made = assembled(
        BEGIN,
        start(0), thought(0, text="hm"), thought(0, text="m"), thought(0, signature="s"), stop(0),
        start(1), text("a", 1), text("b", 1), stop(1),
        start(2, "add", "t1"), typed('{"a":', 2), typed(" 1}", 2), stop(2),
        end("tool_use"),
        {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, "metrics": {"latencyMs": 9}}},
    )  # fmt: skip
    assert made.message == {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "s"}}},
            {"text": "ab"},
            call("add", {"a": 1}, "t1"),
        ],
    }
    assert made.stop_reason == "tool_use"
    assert made.usage == {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
    assert made.metrics == {"latencyMs": 9}


def test_a_block_is_given_with_the_chunk_that_completes_it() -> None:
    assembly = Assembly()
    chunks = [BEGIN, start(), text("a"), stop(), start(None, "add", "t1"), typed("{}"), stop(), end()]
    assert [assembly.feed(chunk) for chunk in chunks] == [
        None, None, None, {"text": "a"}, None, None, call("add", {}, "t1"), None,
    ]  # fmt: skip


def test_a_block_without_an_end_ends_with_the_next_one_or_with_the_message() -> None:
    assembly = Assembly()
    chunks = [BEGIN, start(), text("a"), start(None, "add", "t1"), typed("{}"), end()]
    assert [assembly.feed(chunk) for chunk in chunks] == [
        None, None, None, {"text": "a"}, None, call("add", {}, "t1"),
    ]  # fmt: skip


def test_blocks_without_a_start_are_inferred_from_their_pieces() -> None:
    pieces = [thought(text="hm"), text("a"), typed('{"a": 1}', name="add", toolUseId="t1"), text("b"), end()]
    assert content(*pieces) == [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"text": "a"},
        call("add", {"a": 1}, "t1"),
        {"text": "b"},
    ]


def test_blocks_that_are_streamed_at_the_same_time_are_told_apart_by_their_index() -> None:
    chunks = [
        start(0, "add", "t1"), start(1, "sub", "t2"), typed('{"a"', 0), typed('{"b"', 1), typed(": 1}", 0),
        stop(0), typed(": 2}", 1), stop(1), end("tool_use"),
    ]  # fmt: skip
    assert content(*chunks) == [call("add", {"a": 1}, "t1"), call("sub", {"b": 2}, "t2")]


def test_blocks_stand_in_the_order_in_which_they_began() -> None:
    chunks = [start(0), start(1), text("b", 1), stop(1), text("a", 0), stop(0), end()]
    assert content(*chunks) == [{"text": "a"}, {"text": "b"}]


def test_pieces_without_an_index_belong_to_the_open_block() -> None:
    assert content(start(3, "add", "t1"), typed('{"a": 1}'), stop(), end()) == [call("add", {"a": 1}, "t1")]
    assert content(start(None, "add", "t1"), typed('{"a": 1}', 0), stop(0), end()) == [
        call("add", {"a": 1}, "t1")
    ]


def test_the_end_of_a_block_that_nobody_began_is_passed_over() -> None:
    assert content(stop(), stop(4), text("a"), end()) == [{"text": "a"}]


def test_what_a_provider_does_not_show() -> None:
    chunks = [
        thought(text="hm"),
        thought(redactedContent=b"xy"),
        thought(redactedContent=b"z"),
        text("a"),
        end(),
    ]
    assert content(*chunks) == [
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"reasoningContent": {"redactedContent": b"xyz"}},
        {"text": "a"},
    ]


def test_a_signature_belongs_to_its_block_alone() -> None:
    blocks = content(thought(text="a"), thought(signature="s"), stop(), thought(text="b"), stop(), end())
    assert blocks[0]["reasoningContent"]["reasoningText"] == {"text": "a", "signature": "s"}
    assert blocks[1]["reasoningContent"]["reasoningText"] == {"text": "b"}


def test_citations_stay_with_their_text() -> None:
    cited = {"contentBlockDelta": {"delta": {"citation": {"title": "t"}}}}
    assert content(text("a"), cited, stop(), text("b"), stop(), end()) == [
        {"citationsContent": {"citations": [{"title": "t"}], "content": [{"text": "a"}]}},
        {"text": "b"},
    ]


def test_a_guardrail_puts_its_text_in_the_place_of_the_answer() -> None:
    redacted = {"redactContent": {"redactAssistantContentMessage": "no"}}
    made = assembled(start(None, "add", "t1"), typed("{}"), stop(), redacted, end("tool_use"))
    assert (made.message["content"], made.stop_reason) == ([{"text": "no"}], "end_turn")
    late = assembled(start(None, "add", "t1"), typed("{}"), stop(), end("guardrail_intervened"), redacted)
    assert (late.message["content"], late.stop_reason) == ([{"text": "no"}], "guardrail_intervened")


@pytest.mark.parametrize(
    ("streamed", "meant"),
    [
        ("", {}),
        ("  \n", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', '{"a": '),
        ("[1]", [1]),
        ("null", None),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5_000, "9" * 5_000),
    ],
    ids=["nothing", "blank", "object", "cut", "list", "null", "deep", "long number"],
)
def test_the_input_of_a_call_is_what_its_text_means_or_the_text(streamed: str, meant: Any) -> None:
    assert content(start(None, "add", "t1"), typed(streamed), stop(), end()) == [call("add", meant, "t1")]


def test_an_input_that_is_no_text_is_taken_as_it_is() -> None:
    assert content(start(None, "add", "t1"), typed({"a": 1}), stop(), end()) == [call("add", {"a": 1}, "t1")]


def test_halves_of_a_character_are_put_together_and_single_ones_replaced() -> None:
    """Half a character can neither be stored everywhere nor sent to a provider again."""
    assert content(text("a\ud83d"), text("\ude00b\ud83d"), end()) == [{"text": "a\U0001f600b\ufffd"}]
    thoughts = content(thought(text="\ud83d"), thought(text="\ude00"), end())
    assert thoughts[0]["reasoningContent"]["reasoningText"]["text"] == "\U0001f600"
    escaped = '{"a": ["\\ud83d\\ude00", "\\ud83d"], "\\ude00": "\\u00e4"}'
    assert content(start(None, "add", "t1"), typed(escaped), stop(), end()) == [
        call("add", {"a": ["\U0001f600", "\ufffd"], "\ufffd": "ä"}, "t1")
    ]
    cut = content(start(None, "add", "t1"), typed('{"a": "\ud83d'), stop(), end())
    assert cut == [call("add", '{"a": "\ufffd', "t1")]


@pytest.mark.parametrize("missing", [None, ""])
def test_a_call_without_an_id_gets_one(missing: str | None) -> None:
    blocks = content(start(None, "add", missing), stop(), start(None, "add", missing), stop(), end())
    ids = {block["toolUse"]["toolUseId"] for block in blocks}
    assert len(ids) == 2
    assert all(ids)


def test_a_second_call_with_the_same_id_gets_another() -> None:
    first, second = content(start(None, "add", "t1"), stop(), start(None, "sub", "t1"), stop(), end())
    assert first["toolUse"]["toolUseId"] == "t1"
    assert second["toolUse"]["toolUseId"] not in ("", "t1")


@pytest.mark.parametrize(
    ("said", "calls", "meant"),
    [
        ("end_turn", True, "tool_use"),
        ("tool_use", False, "end_turn"),
        (None, True, "tool_use"),
        (None, False, "end_turn"),
        ("max_tokens", True, "max_tokens"),
        ("something_new", True, "something_new"),
    ],
)
def test_the_stop_reason_agrees_with_the_calls(said: str | None, calls: bool, meant: str) -> None:
    chunks = [start(None, "add", "t1"), stop()] if calls else [text("a")]
    assert assembled(*chunks, end(said)).stop_reason == meant


def test_a_message_may_be_without_content() -> None:
    assert content(BEGIN, start(), text(""), stop(), end()) == []


def test_usage_may_come_in_parts_and_without_a_sum() -> None:
    made = assembled(
        text("a"),
        {"metadata": {"usage": {"inputTokens": 3, "cacheReadInputTokens": 2}}},
        end(),
        {"metadata": {"usage": {"outputTokens": 4, "totalTokens": None}, "metrics": None}},
    )
    assert made.usage == {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "cacheReadInputTokens": 2}
    assert made.metrics == {"latencyMs": 0}


def test_keys_that_are_not_known_are_passed_over() -> None:
    assert content(
        {}, {"ping": 1}, BEGIN, text("a"), {"contentBlockDelta": {"delta": {"odd": 1}}}, end()
    ) == [{"text": "a"}]


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([], "empty"),
        ([BEGIN], "empty"),
        ([BEGIN, text("a")], "ended before its message"),
        ([BEGIN, text("a"), stop()], "ended before its message"),
    ],
)
def test_a_stream_that_ends_before_its_message_is_an_error(chunks: Any, message: str) -> None:
    with pytest.raises(ModelStreamError, match=message):
        assembled(*chunks)


@pytest.mark.parametrize("chunk", [None, "text", b"x", 7, ["a"], ("messageStart", {}), object()])
def test_what_is_no_chunk_is_an_error_that_shows_it(chunk: Any) -> None:
    with pytest.raises(ModelStreamError) as caught:
        assembled(BEGIN, chunk)
    assert repr(chunk) in str(caught.value)


@pytest.mark.parametrize(
    "chunks",
    [
        [{"contentBlockDelta": "x"}],
        [{"contentBlockDelta": {}}],
        [{"contentBlockDelta": {"delta": None}}],
        [{"contentBlockDelta": {"delta": {"toolUse": "x"}}}],
        [{"contentBlockDelta": {"contentBlockIndex": [], "delta": {"text": "a"}}}],
        [{"contentBlockStart": "x"}],
        [{"contentBlockStart": {"start": {"toolUse": "x"}}}],
        [text(7), stop()],
        [thought(redactedContent="x"), stop()],
        [start(None, "add", 7), stop()],  # type: ignore[arg-type]
        [end(7)],
        [{"metadata": {"usage": 7}}],
    ],
    ids=lambda chunks: json.dumps(chunks),
)
def test_a_malformed_chunk_is_an_error(chunks: Any) -> None:
    with pytest.raises(ModelStreamError, match="malformed"):
        assembled(*chunks)


def test_a_text_with_citations_is_a_text() -> None:
    cited = {"citationsContent": {"citations": [], "content": [{"text": "b"}, {"text": "c"}]}}
    assert texts([{"text": "a"}, cited, {"image": {}}]) == ["a", "b", "c"]


def test_a_long_chunk_is_not_shown_in_full() -> None:
    with pytest.raises(ModelStreamError) as caught:
        assembled("x" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_call_that_names_no_tool_is_an_error(name: Any) -> None:
    with pytest.raises(ModelStreamError, match="t1"):
        assembled(start(None, name, "t1"), stop(), end("tool_use"))


blocks_of = st.lists(
    st.one_of(
        st.text(min_size=1).map(lambda said: {"text": said}),
        st.tuples(
            st.sampled_from(["add", "sub"]),
            st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3),
        ).map(lambda made: {"call": made}),
    ),
    max_size=4,
)


@given(blocks=blocks_of, cuts=st.lists(st.integers(1, 5), min_size=1, max_size=5), data=st.data())
def test_however_a_message_is_cut_and_mixed_it_comes_out_the_same(
    blocks: Any, cuts: list[int], data: Any
) -> None:
    queues = []
    for index, block in enumerate(blocks):
        called = "call" in block
        whole = json.dumps(block["call"][1]) if called else block["text"]
        size = cuts[index % len(cuts)]
        piece = typed if called else text
        names = (block["call"][0], f"t{index}") if called else ()
        queues.append(
            [
                start(index, *names),
                *(piece(whole[at : at + size], index) for at in range(0, len(whole), size)),
                stop(index),
            ]
        )
    begun = [queue.pop(0) for queue in queues]  # in their order
    mixed = []
    while any(queues):
        mixed.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    assert content(BEGIN, *begun, *mixed, end()) == [
        call(block["call"][0], block["call"][1], f"t{index}") if "call" in block else block
        for index, block in enumerate(blocks)
    ]
