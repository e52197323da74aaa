"""Real nodes send no needless copy, whoever comes and goes; one that forgets nothing is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.pending_interest import PendingInterest
from mesh.wire.control import decode_subscription
from mesh.wire.frames import decode_header
from mesh.wire.keys import parse_subscription_key
from mesh.wire.state import decode_ledger
from streaming.audits.finding_register import Finding
from streaming.audits.interest import EndpointKey
from streaming.audits.needless_copies import NEEDLESS_WAIT_S
from streaming.job.state import State
from streaming.tables.rows import NeedlessRow, SourceKey, TopicPartition
from tests.component.in_memory_mesh import Mesh
from tests.component.streaming.plain_bench import PlainBench
from tests.component.streaming.test_accounts import records
from tests.streaming.planted import Plant, chain_topology

MESH = {
    "kafka": {"left": None, "right": None},
    "nodes": {name: {"kafka": "left" if name in "ab" else "right"} for name in "abcd"},
    "zones": {
        "Z": {"kind": "one-hop", "nodes": ["a", "b", "c"]},
        "W": {"kind": "multi-hop", "links": [["c", "d"]]},
    },
}


def lived(mesh: Mesh, seed: int) -> Mesh:
    """Publish at a and d while endpoints everywhere come and go."""
    rng = random.Random(seed)
    asked: dict[tuple[str, str], None] = {}
    clients = {node: mesh.client(node) for node in mesh.topology.nodes}
    for number in range(80):
        node = rng.choice("abcd")
        filter_ = rng.choice(["acme/*", "acme/1", "acme/2", "*/3", "other/>"])
        if (node, filter_) in asked:
            clients[node].unsubscribe("s", filter_)
            del asked[node, filter_]
        elif rng.random() < 0.7:
            clients[node].subscribe("s", filter_)
            asked[node, filter_] = None
        mesh.pause(rng.choice([0.0, 0.05, 0.5]))
        subject = f"{rng.choice(['acme', 'other'])}/{number % 4}"
        clients[rng.choice("ad")].publish(subject, b"x")
    mesh.pause(10.0)
    return mesh


def audited(mesh: Mesh) -> list[Finding]:
    """Return what the auditor makes of all frames, each subject of each looked at."""
    names, state = TopicNames(mesh.topology.prefix), State.of(mesh.topology)
    view = mesh.view()
    view.refresh()
    for node, told in view.nodes.items():
        assert told.identity is not None
        state.names.learn(told.identity)
        for record in records(mesh, node, names.clients(node)):
            name, filter_ = parse_subscription_key(record.key() or b"")
            key, value, offset = EndpointKey(node, name), record.value(), record.offset()
            if value is None:
                state.interest.unsubscribe(key, filter_, offset)
                state.needless.end(node, filter_, offset)
            else:
                state.interest.subscribe(key, filter_, decode_subscription(value), offset)
        for record in records(mesh, node, names.ledger(node)):
            for cut in decode_ledger(record.value() or b"").cuts:
                state.interest.lanes.cut(cut)
    state.needless.is_open = True
    for link in mesh.topology.links:
        for sender, receiver in (link.ends, link.ends[::-1]):
            topic = names.outbox(sender, receiver, MessageClass.GUARANTEED)
            for record in records(mesh, sender, topic):
                origin = decode_header(record.key() or b"").origin
                source = SourceKey(origin.source.topic_id.hex(), origin.source.partition)
                place = TopicPartition(topic, record.partition())
                span = (origin.first, origin.last, origin.first, record.offset(), record.offset())
                rows = [
                    NeedlessRow(place, source, 0, None, subject, 1, *span)
                    for subject in origin.subjects
                ]
                assert not [*state.needless.absorb(rows, state.interest, state.eras, 0.0)]
    assert state.needless.held
    return list(state.needless.judge(state.interest, state.eras, state.names, NEEDLESS_WAIT_S))


@pytest.fixture
def mesh(mesh_of: Callable[[Topology], Mesh]) -> Mesh:
    return mesh_of(topology_from_mapping(MESH))


@pytest.mark.parametrize("seed", range(2))
def test_no_copy_is_needless_while_endpoints_come_and_go(mesh: Mesh, seed: int) -> None:
    assert audited(lived(mesh, seed)) == []


def test_a_node_that_goes_on_sending_what_was_left_is_found(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: what somebody asked for once is asked for for ever."""
    put = PendingInterest.put

    def kept(pending: PendingInterest, filter_: str, member: object, wish: object) -> None:
        if wish is not None:
            put(pending, filter_, member, wish)  # type: ignore[arg-type]

    monkeypatch.setattr(PendingInterest, "put", kept)
    assert {str(one.kind) for one in audited(lived(mesh, 0))} == {"needless-copy"}


def test_copies_that_are_read_before_their_subscription_in_another_kafka_cluster_are_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than may wait are reported as not examined."""
    monkeypatch.setattr("streaming.audits.needless_copies.HELD_MAX", 1)
    plant = Plant()
    plant.identities()
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    topology = replace(chain_topology(), audit_copies=True)
    bench = PlainBench(None, plant, tmp_path, topology, kafkas=("k1", "k2"))
    assert bench.settle() == []
    plant.cuts_everywhere("c", plant.subscribe("c", "s2", "late/>"))
    for number in range(3):
        plant.carry(1, ["c/s2"], subject=f"late/{number}")
    bench.take()
    assert len(bench.auditor.state.needless.held) == 1
    assert {*bench.settle()} == {"unproven"}
    certificates = [one for (_, whose), one in bench.certificates.items() if whose == "c/s2"]
    assert [(one.equal, one.sure, one.delivered) for one in certificates] == [(True, True, 3)]
