"""Counting who can be reached: what is told, and when a count begins anew. Spec: tree_layer 7.4."""

from mesh.model.tree_apps import Answered, NodesFound, NodesLost, SendWanted
from mesh.model.tree_frames import ReplyKind
from mesh.model.tree_nodes import NodeSeen, encode_node
from mesh.trees.applications.splits import COUNT_MS, TRIES_MAX, SplitCounts


def answered(count: SendWanted | None, names: str, *, is_whole: bool = True) -> Answered:
    assert count is not None
    items = tuple(encode_node(NodeSeen(name, f"uuid-{name}", "", ())) for name in names)
    kind = ReplyKind.DATA if is_whole else ReplyKind.NULL
    return Answered("", count.call, kind, True, items)


def known(names: str) -> SplitCounts:
    splits = SplitCounts()
    assert splits.heard(answered(splits.begin(), names), 0) == ([], None)
    return splits


def told(splits: SplitCounts, names: str) -> list[NodesLost | NodesFound]:
    """Return what the next count tells, in which these answer."""
    news, count = splits.heard(answered(splits.changed(), names), 0)
    assert count is None
    return list(news)


def test_nobody_counts_for_nobody() -> None:
    assert SplitCounts().changed() is None
    splits = known("abc")
    splits.end()
    assert splits.changed() is None
    assert splits.tick(10 * COUNT_MS) is None
    assert splits.due_ms is None


def test_whoever_is_missing_is_told_once() -> None:
    splits = known("abc")
    assert told(splits, "ab") == [NodesLost(("a", "b"), ("c",))]
    assert told(splits, "ab") == []


def test_who_comes_back_is_told_and_missed_again_when_it_goes_again() -> None:
    splits = known("abc")
    assert told(splits, "a") == [NodesLost(("a",), ("b", "c"))]
    assert told(splits, "abc") == [NodesFound(("a", "b", "c"), (), ("b", "c"))]
    assert told(splits, "ab") == [NodesLost(("a", "b"), ("c",))]


def test_one_goes_while_another_comes() -> None:
    splits = known("ab")
    assert told(splits, "ac") == [
        NodesLost(("a", "c"), ("b",)),
        NodesFound(("a", "c"), ("b",), ("c",)),
    ]


def test_whoever_loses_the_others_one_by_one_is_a_minority_at_last() -> None:
    """Else both sides of a split that comes in steps would go on writing."""
    splits = known("abcde")
    steps = [one for names in ("abcd", "abc", "ab", "a") for one in told(splits, names)]
    assert [one.lost for one in steps] == [
        ("e",), ("d", "e"), ("c", "d", "e"), ("b", "c", "d", "e"),
    ]  # fmt: skip
    assert [one.is_minority for one in steps] == [False, False, True, True]
    (half,) = told(splits, "ab")
    assert half == NodesFound(("a", "b"), ("c", "d", "e"), ("b",))
    assert half.is_minority


def test_who_is_no_longer_a_node_of_the_mesh_is_not_missed() -> None:
    splits = known("abcd")
    assert told(splits, "abc")
    splits.follow("ab")
    assert (splits.reached, splits.lost) == (frozenset("ab"), frozenset())
    # Neighbours that do not follow yet still hand its answers on, and then no more.
    assert told(splits, "abd") == []
    assert told(splits, "ab") == []


def test_it_counts_from_time_to_time_since_a_node_that_joins_changes_no_colour() -> None:
    splits = known("ab")
    assert splits.due_ms == COUNT_MS
    assert splits.tick(COUNT_MS - 1) is None
    count = splits.tick(COUNT_MS)
    news, _ = splits.heard(answered(count, "abc"), COUNT_MS + 50)
    assert news == [NodesFound(("a", "b", "c"), (), ("c",))]
    assert splits.due_ms == 2 * COUNT_MS + 50


def test_a_count_in_the_midst_of_which_something_changed_begins_anew() -> None:
    splits = known("abc")
    first = splits.changed()
    assert splits.changed() is None
    assert splits.tick(COUNT_MS) is None
    news, second = splits.heard(answered(first, "abc"), 0)
    assert not news
    assert first is not None
    assert second is not None
    assert second.call != first.call
    assert splits.heard(answered(second, "a"), 0)[0] == [NodesLost(("a",), ("b", "c"))]


def test_a_count_that_could_not_hear_everybody_says_nothing() -> None:
    """It begins anew, and not for ever: then it waits for its time."""
    splits = known("abc")
    count = splits.changed()
    begun = 0
    while count is not None:
        begun += 1
        news, count = splits.heard(answered(count, "a", is_whole=False), 0)
        assert not news
    assert begun == TRIES_MAX
    assert splits.tick(COUNT_MS) is not None


def test_answers_of_other_calls_and_words_that_are_none_are_passed_over() -> None:
    splits = known("ab")
    count = splits.changed()
    assert count is not None
    assert splits.heard(Answered("", "nodes-99", ReplyKind.DATA, True), 0) == ((), None)
    odd = Answered("", count.call, ReplyKind.DATA, False, (b"{", b"[]", b'{"node": 1}'))
    assert splits.heard(odd, 0) == ((), None)
    assert splits.heard(answered(count, "ab"), 0) == ([], None)


def test_who_went_while_nobody_wanted_to_know_is_not_missed() -> None:
    splits = known("abc")
    splits.end()
    assert splits.heard(answered(splits.begin(), "ab"), 0) == ([], None)
