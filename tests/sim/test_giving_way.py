"""Open links that lose give way: nothing is lost or doubled, whoever dies meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.config.published import published_text
from mesh.model.control import Change, Stage
from mesh.model.frames import MessageClass, SourcePartition, TopicPartition
from mesh.model.links import HOLD, JOIN, OPEN, SWITCH, Gate, YieldProposal
from mesh.model.topology import Topology
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key, links_key
from mesh.worker.second_writer.repairs import Repairs
from tests.sim.apart import ApartMesh, file, multi_hop
from tests.sim.apart_trials import Trial

RING = {
    "a": file("abcd", Z=multi_hop("ab", "ac")),
    "b": file("abcd", Z=multi_hop("ab", "bc")),
    "c": file("abcd", Z=multi_hop("ac", "bc", "cd")),
    "d": file("abcd", Z=multi_hop("cd")),
}
"""`bc` loses as soon as `a` is there."""


def meeting(seed: int = 1) -> ApartMesh:
    """Return a mesh in which `bc` carries messages, and `a` has just come."""
    mesh = ApartMesh(dict(RING), seed=seed)
    mesh.start("b", "c", "d")
    mesh.settle()
    mesh.run(1_000, load=True)
    mesh.start("a")
    return mesh


def proposals(mesh: ApartMesh) -> Iterator[YieldProposal]:
    for worker in mesh.world.workers.values():
        machine = worker.machine
        own = machine.probing.records.get(machine.uuid) if machine is not None else None
        if own is not None and own.proposal is not None:
            yield own.proposal


def run_to(mesh: ApartMesh, step: int) -> None:
    for _ in range(500):
        if any(proposal.step == step for proposal in proposals(mesh)):
            return
        mesh.run(20)
    raise AssertionError(f"no node asks for step {step}")


def assert_exactly_once(mesh: ApartMesh) -> None:
    """Who was there all the time has every message of the others once, in order."""
    mesh.assert_in_order()
    for node in "bcd":
        came = mesh.delivered(node)
        wanted = {value for value, source in mesh.published.items() if source in "bcd"}
        assert not {value for value in wanted if came[value] != 1}, node


def test_an_open_link_gives_way_under_load() -> None:
    """What waits for it says so, with both walks. Spec: K27, K28, EMS-15."""
    mesh = meeting()
    run_to(mesh, HOLD)
    assert mesh.gate("b", "c") is mesh.gate("c", "b") is Gate.OPEN
    assert mesh.reason("a", "b") == mesh.reason("a", "c")
    assert mesh.reason("a", "b").startswith(
        "probing: waits until b-c gives way: a would reach c by two walks: a -Z-> c and "
    )
    mesh.run(5_000, load=True)
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    assert mesh.displaced
    mesh.assert_settled()
    assert_exactly_once(mesh)


@pytest.mark.parametrize(
    ("node", "step"),
    [("b", HOLD), ("c", HOLD + 2), ("b", SWITCH), ("c", SWITCH), ("c", OPEN), ("b", JOIN)],
)
def test_an_end_dies_between_two_steps(node: str, step: int) -> None:
    """Whoever asks, and whoever follows. Spec: K16, K28."""
    mesh = meeting()
    run_to(mesh, step)
    mesh.restart(node, after_ms=3_000)
    mesh.run(3_000, load=True)
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    mesh.assert_settled()
    assert_exactly_once(mesh)


def test_a_node_that_does_not_answer_keeps_the_link_open() -> None:
    """Sources go on after a pause with a limit, and it is tried again. Spec: K19, K27."""
    mesh = meeting()
    mesh.world.kill("d")
    mesh.run(12_000)
    mesh.run(2_000, load=True)
    assert mesh.gate("b", "c") is mesh.gate("c", "b") is Gate.OPEN
    assert mesh.gate("a", "b") is mesh.gate("a", "c") is Gate.PROBING
    last = next(value for value in reversed(mesh.published) if mesh.published[value] == "b")
    mesh.run(1_000)
    assert mesh.delivered("c")[last] == 1
    mesh.world.start("d")
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    mesh.assert_settled()
    assert_exactly_once(mesh)


def test_a_link_stays_open_until_what_vanished_on_it_has_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other way brings it, and nobody would ask for it any more. Spec: K11, K28, G6."""
    mesh = ApartMesh(dict(RING), seed=1)
    mesh.start("b", "c", "d")
    mesh.settle()
    with monkeypatch.context() as patched:
        patched.setattr(Repairs, "step", lambda *_: iter(()))  # others have their turn
        mesh.world.cut("c", ["b"])
        mesh.run(1_000, load=True)
        outbox = mesh.world.kafka["kb"].topics[mesh.names.outbox("b", "c", MessageClass.GUARANTEED)]
        entries = outbox.logs[0].entries
        frames = [at for at, entry in enumerate(entries) if entry is not None]
        entries[frames[-3]] = None
        mesh.world.cut("c", [])
        mesh.run(1_500, load=True)
        mesh.start("a")
        mesh.run(10_000)
        assert mesh.gate("b", "c") is mesh.gate("c", "b") is Gate.OPEN
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    mesh.assert_settled()
    assert_exactly_once(mesh)


def test_what_vanished_on_a_link_that_is_shut_holds_nobody_up() -> None:
    """Nothing comes over it, and so nothing is on its way. Spec: K11, K28."""
    pairs = ["ab", "ac", "bc", "cd", "ce", "de"]
    files = {
        node: file("abcde", Z=multi_hop(*(pair for pair in pairs if node in pair)))
        for node in "abcde"
    }
    mesh = ApartMesh(files, seed=1)
    mesh.start(*"bcde")
    mesh.settle()
    assert mesh.refused() == {frozenset("de")}
    outbox = TopicPartition(mesh.names.outbox("e", "d", MessageClass.GUARANTEED), 0)
    lanes = mesh.world.workers["d"].lanes
    assert lanes is not None
    lanes.owned[0].progress.gaps[outbox, SourcePartition(b"s" * 16, 0)] = (4, 1)
    mesh.start("a")
    mesh.settle()
    assert mesh.refused() == {frozenset("bc"), frozenset("de")}


def test_whoever_asks_is_gone_for_good() -> None:
    """Sources hold no longer than a minute for one that says no more. Spec: K27."""
    mesh = meeting()
    run_to(mesh, HOLD + 1)
    [speaker] = [
        name
        for name, worker in mesh.world.workers.items()
        if worker.machine is not None
        and worker.machine.probing.records[worker.machine.uuid].proposal
    ]
    mesh.world.kill(speaker)
    mesh.run(65_000)
    left = next(node for node in "bc" if node != speaker)
    mesh.publish(left)
    mesh.run(3_000)
    assert mesh.delivered(left)[list(mesh.published)[-1]] == 1


def change(mesh: ApartMesh, nodes: str, topology: Topology) -> None:
    for node in nodes:
        for stage in (Stage.SWITCH, Stage.RUN):
            change = Change(1, stage, published_text(topology))
            mesh.write(node, mesh.names.config(), encode_change(change), change_key())
    mesh.run(5_000)


def test_what_was_said_before_a_change_refuses_nothing_in_force() -> None:
    """`b` and `c` are down, and know nothing of the end of their link. Spec: K27, K28, DMR-10."""
    mesh = ApartMesh(dict.fromkeys("abcd", file("abcd", Z=multi_hop("ab", "bc", "cd"))), seed=1)
    mesh.start(*"abcd", gap_ms=1_000)
    mesh.settle()
    for node in "bc":
        mesh.world.kill(node)
    later = file("abcd", Z=multi_hop("ab", "cd", "ad"))
    change(mesh, "ad", later)
    assert mesh.gate("a", "d") is mesh.gate("d", "a") is Gate.OPEN
    mesh.publish("a")
    mesh.run(2_000)
    assert mesh.delivered("d")[list(mesh.published)[-1]] == 1
    assert not list(proposals(mesh))
    mesh.files |= dict.fromkeys("abcd", later)
    for node in "bc":
        mesh.world.start(node)
    change(mesh, "bc", later)
    mesh.settle()
    mesh.assert_settled({frozenset("ad"): 1})


def test_nobody_hands_on_for_ever_what_a_node_said_that_is_gone() -> None:
    """Spec: K27."""
    mesh = ApartMesh(dict(RING), seed=2)
    mesh.start(*"abcd", gap_ms=1_000)
    mesh.settle()
    machine = mesh.world.workers["d"].machine
    assert machine is not None
    key = links_key(machine.uuid)
    told = [one for one in mesh.read("ka", mesh.names.control("a")) if one.key() == key]
    assert told[-1].value() is not None
    mesh.world.kill("d")
    mesh.restart("c", file("abcd", Z=multi_hop("ac", "bc")))
    mesh.run(70_000)
    for node in "abc":
        control = mesh.read(f"k{node}", mesh.names.control(node))
        told = [one for one in control if one.key() == key]
        assert told[-1].value() is None


@pytest.mark.parametrize("seed", [0])
def test_what_waited_at_a_link_that_is_put_back_comes_once(seed: int) -> None:
    """The loser is shut everywhere before it is read. Spec: K27, K28."""
    whole = {
        "a": file("abcd", Z=multi_hop("ab", "ac")),
        "b": file("abcd", Z=multi_hop("ab", "bd")),
        "c": file("abcd", Z=multi_hop("ac", "cd")),
        "d": file("abcd", Z=multi_hop("bd", "cd")),
    }
    mesh = ApartMesh(dict(whole), seed=seed)
    mesh.start(*"abcd")
    mesh.settle()
    assert mesh.refused() == {frozenset("cd")}
    mesh.world.kill("b")
    mesh.run(1_000, load=True)
    mesh.run(500)
    mesh.restart("b", file("abcd", Z=multi_hop("bd")))
    mesh.restart("a", file("abcd", Z=multi_hop("ac")))
    mesh.settle()
    assert not mesh.refused()
    for node in "ab":
        mesh.restart(node, whole[node])
    mesh.settle()
    assert mesh.refused() == {frozenset("cd")}
    mesh.assert_settled()
    waited = [value for value, source in mesh.published.items() if source == "a"]
    assert all(mesh.delivered(node)[value] == 1 for node in "bcd" for value in waited)


def test_a_random_meeting() -> None:
    """Nodes come late, die and are cut off while links give way. Spec: K27, K28, EMS-15."""
    Trial(3, 3).run()
