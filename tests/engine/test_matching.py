"""Which recorded call a call is: by what it is given, else by its place, each only once."""

from __future__ import annotations

import threading

from graphkit.engine.matching import Call, Calls

A, B, C = Call("f", "a"), Call("f", "b"), Call("f", "c")
OTHER = Call("g", "a")


def beside(call: Call) -> Call:
    """The call, made by a caller that makes several side by side."""
    return call._replace(ordered=False)


def claimed(calls: Calls, *made: Call) -> list[int]:
    return [calls.claim(call)[0] for call in made]


def test_calls_are_found_by_their_input_in_whatever_order_they_come() -> None:
    assert claimed(Calls([(0, A), (1, B), (2, C)]), C, A, B) == [2, 0, 1]
    recorded = [(number, beside(call)) for number, call in enumerate([A, B, C])]
    assert claimed(Calls(recorded), beside(C), beside(A), beside(B)) == [2, 0, 1]


def test_the_nth_of_equal_calls_is_the_nth_recorded_one() -> None:
    assert claimed(Calls([(0, A), (1, B), (2, A), (3, A)]), A, A, B, A) == [0, 2, 1, 3]


def test_one_call_after_the_other_is_found_by_its_place_if_its_input_is_new() -> None:
    assert Calls([(0, A), (1, B)]).claim(Call("f", "new")) == (0, A)
    assert claimed(Calls([(0, A), (1, B)]), A, Call("f", "new")) == [0, 1]


def test_calls_side_by_side_are_found_by_their_input_alone() -> None:
    """What another call came to is never taken for this one's: after a crash, some are not recorded."""
    recorded = [(0, A), (1, beside(B))]
    calls = Calls(recorded)
    assert calls.claim(A) == (0, A)
    assert calls.claim(beside(C)) == (1, beside(C))
    assert calls.claim(beside(B)) == (1, beside(B))


def test_an_unrecorded_call_keeps_its_place() -> None:
    assert Calls([(1, B)]).claim(A) == (0, A)


def test_a_recorded_call_of_a_caller_that_now_calls_side_by_side_is_found_by_input_alone() -> None:
    assert Calls([(0, A)]).claim(beside(B)) == (0, beside(B))
    assert Calls([(0, A)]).claim(beside(A)) == (0, A)


def test_a_call_of_another_name_is_a_new_one() -> None:
    calls = Calls([(0, A)])
    assert calls.claim(OTHER) == (0, OTHER)
    assert calls.claim(A) == (0, A)
    assert calls.claim(A) == (2, A)


def test_what_has_no_fingerprint_is_found_by_its_place() -> None:
    unmarked = Call("f", "")
    assert claimed(Calls([(0, unmarked), (1, unmarked)]), *[unmarked] * 3) == [0, 1, 2]
    recorded = [(0, beside(unmarked)), (1, beside(unmarked))]
    assert claimed(Calls(recorded), *[beside(unmarked)] * 3) == [0, 1, 2]


def test_without_records_every_call_is_new() -> None:
    assert claimed(Calls(), A, A, A) == [0, 1, 2]


def test_no_call_is_given_twice_to_callers_in_several_threads() -> None:
    recorded = [(number, beside(call)) for number, call in enumerate([A, B, C] * 100)]
    calls = Calls(recorded)
    taken: list[tuple[int, Call]] = []
    ready = threading.Barrier(4)

    def claim() -> None:
        ready.wait()
        taken.extend([calls.claim(Call("f", mark, False)) for mark in "abcx" * 50])

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == 800
    assert set(recorded) <= set(taken)
