"""Counting who can be reached: what is told, and when a count begins anew. Spec: tree_layer 7.4."""

from mesh.model.tree_apps import Answered, SendWanted, SplitTold
from mesh.model.tree_frames import ReplyKind
from mesh.model.tree_nodes import NodeSeen, encode_node
from mesh.trees.splits import TRIES_MAX, Splits


def answered(count: SendWanted, names: str, *, is_whole: bool = True) -> Answered:
    items = tuple(encode_node(NodeSeen(name, f"uuid-{name}", "", ())) for name in names)
    kind = ReplyKind.DATA if is_whole else ReplyKind.NULL
    return Answered("", count.call, kind, True, items)


def known(names: str) -> Splits:
    splits = Splits()
    count = splits.want("app")
    assert count is not None
    assert splits.heard(answered(count, names)) == (None, None)
    return splits


def test_nobody_counts_for_nobody() -> None:
    assert Splits().changed() is None
    splits = known("abc")
    splits.part("app")
    assert splits.changed() is None


def test_whoever_is_missing_is_told_once() -> None:
    splits = known("abc")
    for expected in (SplitTold(("a", "b"), ("c",)), None):
        count = splits.changed()
        assert count is not None
        assert splits.heard(answered(count, "ab")) == (expected, None)


def test_who_comes_back_is_missed_again_when_it_goes_again() -> None:
    splits = known("abc")
    for names, lost in (("a", ("b", "c")), ("abc", None), ("ab", ("c",))):
        count = splits.changed()
        assert count is not None
        told, _ = splits.heard(answered(count, names))
        assert (told.lost if told else None) == lost


def test_a_count_in_the_midst_of_which_something_changed_begins_anew() -> None:
    splits = known("abc")
    first = splits.changed()
    assert first is not None
    assert splits.changed() is None
    told, second = splits.heard(answered(first, "abc"))
    assert told is None
    assert second is not None
    assert second.call != first.call
    assert splits.heard(answered(second, "a"))[0] == SplitTold(("a",), ("b", "c"))


def test_a_count_that_could_not_hear_everybody_says_nothing() -> None:
    """It begins anew, and not for ever."""
    splits = known("abc")
    count = splits.changed()
    begun = 0
    while count is not None:
        begun += 1
        told, count = splits.heard(answered(count, "a", is_whole=False))
        assert told is None
    assert begun == TRIES_MAX
    assert splits.changed() is not None


def test_answers_of_other_calls_and_words_that_are_none_are_passed_over() -> None:
    splits = known("ab")
    count = splits.changed()
    assert count is not None
    assert splits.heard(Answered("", "nodes-99", ReplyKind.DATA, True)) == (None, None)
    odd = Answered("", count.call, ReplyKind.DATA, False, (b"{", b"[]", b'{"node": 1}'))
    assert splits.heard(odd) == (None, None)
    assert splits.heard(answered(count, "ab")) == (None, None)


def test_who_went_while_nobody_wanted_to_know_is_not_missed() -> None:
    splits = known("abc")
    splits.part("app")
    count = splits.want("other")
    assert count is not None
    assert splits.heard(answered(count, "ab")) == (None, None)
