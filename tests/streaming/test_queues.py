"""Queues on static frames: each by its policy, members of one queue together. Spec: K29."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

ANY = b'{"kind": "queue", "policy": "any"}'


def subscribe(plant, *nodes: str, value: bytes = ANY) -> None:
    for node in nodes:
        plant.cuts_everywhere(node, plant.subscribe(node, "q", "acme/>", value))


def told(bench) -> tuple[list[str], dict[str, tuple[int, int, bool]]]:
    kinds = list(bench.settle())
    return kinds, {
        endpoint: (one.expected, one.delivered, one.equal)
        for (_, endpoint), one in bench.certificates.items()
    }


def test_a_message_is_at_one_member_or_the_other(bench, plant):
    subscribe(plant, "a", "c")
    plant.carry(10, [])
    plant.deliver("a/q", range(6), ["a"])
    plant.deliver("c/q", range(6, 10), ["a", "b", "c"])
    assert told(bench) == ([], {"*/q": (10, 10, True)})


def test_what_two_members_have_or_none_is_named(bench, plant):
    """Spec: K30."""
    subscribe(plant, "a", "c")
    plant.carry(10, [])
    plant.deliver("a/q", range(6), ["a"])
    plant.deliver("c/q", [4, 5, 6, 8, 9], ["a", "b", "c"])
    assert told(bench) == (["duplicate", "missing"], {"*/q": (10, 11, False)})
    found = {one.kind.value: one.ids for one in bench.auditor.state.register.findings.values()}
    assert found == {
        "duplicate": ("mesh.a.in.g/0/0/4", "mesh.a.in.g/0/0/5"),
        "missing": ("mesh.a.in.g/0/0/7",),
    }


def test_what_one_member_asked_for_and_another_got_is_unexpected(bench, plant):
    """All together have exactly what was owed; what was moved may be anything of the queue's."""
    plant.cuts_everywhere("a", plant.subscribe("a", "q", "acme/>", ANY))
    plant.cuts_everywhere("c", plant.subscribe("c", "q", "other/>", ANY))
    plant.carry(10, [])
    plant.deliver("c/q", range(8), ["a", "b", "c"])
    plant.deliver("c/q", [8, 9], ["a", "b", "c"], moves=1)
    assert told(bench) == (["unexpected"], {"*/q": (10, 10, False)})
    (finding,) = bench.auditor.state.register.findings.values()
    assert (finding.endpoint, finding.first, finding.last) == ("c/q", 0, 7)


def test_what_was_moved_is_where_it_was_moved_last(bench, plant):
    """From a to c, one of them back again: its path begins anew, and nothing is late or twice."""
    subscribe(plant, "a", "c")
    plant.carry(10, [])
    plant.deliver("a/q", range(10), ["a"])
    plant.deliver("c/q", [2, 3], ["a", "b", "c"], moves=1)
    plant.deliver("a/q", [2], ["c", "b", "a"], moves=2)
    assert told(bench) == ([], {"*/q": (10, 10, True)})
    plant.deliver("a/q", [3], ["c", "b", "a"], moves=1)
    assert told(bench)[0] == ["duplicate"]


def test_what_is_moved_over_a_link_that_carried_it_before_is_no_repetition(bench, plant):
    """A channel at c has had all of it already, and later ones too."""
    subscribe(plant, "b", "c")
    plant.carry(10, [])
    plant.deliver("b/q", range(10), ["a", "b"])
    plant.frame("b->c", [2, 3], path=["b"], source="b.ep.q", subject="$queue/q/c")
    plant.deliver("c/q", [2, 3], ["b", "c"], moves=1)
    assert told(bench) == ([], {"*/q": (10, 10, True)})
    plant.frame("b->c", [4, 5], path=["a", "b"], source="b.ep.q")
    assert told(bench)[0] == ["duplicate"]


def test_what_a_node_moves_of_its_own_crosses_links_once_more_all_the_same(bench, plant):
    """Headers do not tell it, at the node of its clients or further on: the messages do."""
    subscribe(plant, "a", "c")
    plant.carry(10, [])
    plant.deliver("a/q", range(10), ["a"])
    to_c = {"subject": "$queue/q/c", "moves": 1}
    plant.frame("a->b", [2, 3], path=["a"], source="a.ep.q", **to_c)
    at = plant.frame("b->c", [2, 3], path=["a", "b"], source="a.to.b.g", span=(20, 20), **to_c)
    plant.accept("c", "b.to.c.g", 0, "a.to.b.g", 20)
    plant.progress("c", "b.to.c.g", 0, at + 1)
    plant.deliver("c/q", [2, 3], ["a", "b", "c"], moves=1)
    assert told(bench) == ([], {"*/q": (10, 10, True)})
    plant.frame("a->b", [4], path=["a"], source="a.ep.q", subject="$queue/q/c")
    plant.frame("a->b", [5], path=["a"], source="a.ep.q", moves=1)
    assert told(bench)[0] == ["duplicate"]
    (finding,) = bench.auditor.state.register.findings.values()
    assert (finding.link, finding.first, finding.last) == ("a->b", 4, 5)


def test_every_member_has_all_and_local_queues_have_what_is_published_there(bench, plant):
    """Spec: DMR-9, UM-7."""
    subscribe(plant, "b", "c", value=b'{"kind": "queue"}')
    subscribe(plant, "a", value=b'{"kind": "queue", "policy": "local"}')
    plant.carry(5, ["b/q", "c/q"])
    plant.deliver("a/q", range(5), ["a"])
    equal = dict.fromkeys(("a/q", "b/q", "c/q"), (5, 5, True))
    assert told(bench) == ([], equal)
    # Nobody moves these: a second copy is one, whatever it says of itself.
    plant.deliver("b/q", [3], ["a", "b"], moves=1)
    assert told(bench) == (["duplicate", "unexpected"], {**equal, "b/q": (5, 6, False)})
