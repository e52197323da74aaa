"""Roles over whole workers on in-memory Kafka: taken, sent to, answered, lost and found again."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.model.effects import Relinked
from mesh.model.tree_apps import (
    Answered,
    Expired,
    PartitionSuspected,
    Refused,
    RoleLoss,
    RoleLost,
    Served,
)
from mesh.model.tree_frames import Cause, Frame, Hello, ReplyKind
from mesh.model.trees import Address, tree_id
from mesh.transport.port import TopicPartition
from mesh.trees.links import CONTRADICTS
from mesh.trees.settings import Settings
from mesh.wire.tree_events import encode_event
from mesh.wire.trees import encode_frame
from mesh.worker.trees.service import TreeService
from mesh.worker.trees.writing import GONE_MAX
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.worker.trees.applications import Open, finished, live, payloads
from tests.said import Said


def test_a_role_is_sent_to_over_two_links_and_answers(application: Open) -> None:
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    call = finished(sender.send("desk-7", "pricing", b"how much?"), host)
    assert payloads(call) == ["c: how much?"]
    assert sum(one.is_last for one in call.replies) == 1
    again = finished(sender.send("desk-7", "pricing", b"and now?"), host)
    assert payloads(again) == ["c: and now?"]


ALL_KINDS: dict[str, object] = {
    "kafka": {"left": None, "right": None},
    "nodes": {name: {"kafka": "left" if name in "abc" else "right"} for name in "abcdefg"},
    "zones": {
        "DIRECT": {"kind": "cluster", "nodes": ["a", "b"], "directOnly": True},
        "GATES": {"kind": "external", "links": [["b", "c"]]},
        "TO": {"kind": "join", "from": "c", "to": "d", "filter": "acme/>"},
        "HOP": {"kind": "one-hop", "links": [["d", "e"]]},
        "AGAIN": {"kind": "one-hop", "links": [["e", "f"]]},
        "OVER": {"kind": "multi-hop", "links": [["f", "g"]]},
    },
    "selectors": [{"link": ["f", "g"], "from": "f", "when": 'headers["x"] == "y"'}],
}


def test_roles_reach_over_all_that_limits_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of zones, selectors, classes and filters are none of theirs, and a join carries them
    both ways. Spec: tree_layer 2.
    """
    mesh = Mesh(topology_from_mapping(ALL_KINDS), trees=Settings())
    mesh.pause(5)
    ends = [mesh.client(node).roles("app").open() for node in "ag"]
    for one, role in zip(ends, ("first", "last"), strict=True):
        one.add("desk-7", role)
    live(mesh, 3, *ends)
    assert payloads(finished(ends[0].send("desk-7", "last", b"?"), ends[1])) == ["g: ?"]
    assert payloads(finished(ends[1].send("desk-7", "first", b"?"), ends[0])) == ["a: ?"]
    mesh.close()


def test_a_role_is_found_however_long_the_way_to_it_is() -> None:
    """Frames may cross as many links as the mesh has nodes. Spec: tree_layer 2."""
    mesh = Mesh(topology_from_mapping(CHAIN), trees=Settings(hops_max=1))
    host, sender = (mesh.client(node).roles("app").open() for node in "ca")
    host.add("desk-7", "pricing")
    live(mesh, 1, host)
    assert payloads(finished(sender.send("desk-7", "pricing", b"?"), host)) == ["c: ?"]
    mesh.close()


def test_who_is_not_there_is_not_found(application: Open) -> None:
    call = finished(application("a").send("desk-7", "nobody"))
    assert [one.kind for one in call.replies] == [ReplyKind.NOT_FOUND]


@pytest.mark.parametrize(
    "topic", ["mesh.b.to.c.t", "mesh.c.to.b.t", "mesh.a.sends", "mesh.c.roles"]
)
def test_a_topic_recreated_is_read_again(mesh: Mesh, application: Open, topic: str) -> None:
    """As one whose reader was away for longer than it keeps anything. Spec: tree_layer 12."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    for number in range(3):
        call = finished(sender.send("desk-7", "pricing", b"%d" % number), host)
        assert payloads(call) == [f"c: {number}"]
    next(one for one in mesh.world.kafka.values() if topic in one.topics).recreate(topic)
    live(mesh, 15, host, sender)
    call = finished(sender.send("desk-7", "pricing", b"still there?"), host)
    assert payloads(call) == ["c: still there?"]


def test_what_was_deleted_before_its_node_read_it_ends_with_a_null(
    mesh: Mesh, application: Open
) -> None:
    """A topic keeps ten minutes and 64 MB: what was sent, and answered, was lost in silence."""
    sender, place = application("a"), TopicPartition("mesh.a.sends", 0)
    sender.add("desk-7", "pricing")
    call = sender.send("desk-7", "pricing", b"lost")
    admin = mesh.world.kafka["left"].admin()
    admin.delete_before({place: admin.ends([place])[place]})
    live(mesh, 3, sender)
    assert [(one.kind, one.cause) for one in finished(call).replies] == [
        (ReplyKind.NULL, Cause.APPLICATION_GONE)
    ]
    assert len(sender.held) == 1
    assert payloads(finished(sender.send("desk-7", "pricing", b"now"), sender)) == ["a: now"]


@pytest.mark.parametrize(
    "topic",
    [
        *("mesh.b.to.c.t", "mesh.c.to.b.t", "mesh.a.sends", "mesh.c.roles"),
        *("mesh.a.app.app", "mesh.c.app.app"),
    ],
)
def test_a_topic_that_somebody_deleted_is_recreated(
    mesh: Mesh, application: Open, topic: str
) -> None:
    """No client would miss it: it waits for a topic that may come. Spec: tree_layer 12."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]
    next(one for one in mesh.world.kafka.values() if topic in one.topics).delete_topic(topic)
    for number in range(20):
        call = sender.send("desk-7", "pricing", b"still there?")
        live(mesh, 3, host, sender)
        if payloads(call) == ["c: still there?"] and number:
            return
    raise AssertionError("nobody has made it again")


def test_a_bridge_that_is_killed_and_comes_back_finds_roles_again(
    mesh: Mesh, application: Open
) -> None:
    """Nobody publishes anything: the first send recovers. Spec: tree_layer 12."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]
    mesh.world.kill("b")
    assert not payloads(finished(sender.send("desk-7", "pricing", b"2"), host))
    mesh.world.start("b")
    for number in range(3, 40):
        call = finished(sender.send("desk-7", "pricing", str(number).encode()), host)
        if payloads(call):
            return
        live(mesh, 1, host, sender)
    raise AssertionError("the role is not found again")


def test_a_node_that_comes_back_gives_its_applications_their_roles_again(
    mesh: Mesh, application: Open
) -> None:
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    host.add("desk-7", "risk", exclusive=True)
    mesh.world.kill("c")
    mesh.world.start("c")
    live(mesh, 15, host, sender)
    for role in ("pricing", "risk"):
        call = finished(sender.send("desk-7", role, b"again"), host)
        assert payloads(call) == ["c: again"]
    assert len(host.held) == 2


def test_open_sends_end_with_a_null_when_the_senders_node_restarts(
    mesh: Mesh, application: Open
) -> None:
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    call = sender.send("desk-7", "pricing", b"never answered")
    live(mesh, 1, sender)
    mesh.world.kill("a")
    mesh.world.start("a")
    live(mesh, 15, host, sender)
    assert [(one.kind, one.cause, one.is_last) for one in call.replies] == [
        (ReplyKind.NULL, Cause.NODE_RESTARTED, True)
    ]


def test_an_application_that_dies_loses_its_roles_and_owes_nothing_more(
    mesh: Mesh, application: Open
) -> None:
    host, sender = application("c", lease_s=3), application("a")
    host.add("desk-7", "pricing")
    call = sender.send("desk-7", "pricing", b"wait")
    live(mesh, 1, sender)
    host.leave()
    live(mesh, 5, sender)
    assert [(one.kind, one.cause, one.is_last) for one in call.replies] == [
        (ReplyKind.NULL, Cause.APPLICATION_GONE, True)
    ]
    gone = finished(sender.send("desk-7", "pricing", b"gone?"))
    assert [one.kind for one in gone.replies] == [ReplyKind.NOT_FOUND]
    mesh.world.kill("c")
    mesh.world.start("c")
    live(mesh, 15, sender)
    gone = finished(sender.send("desk-7", "pricing", b"gone?"))
    assert [one.kind for one in gone.replies] == [ReplyKind.NOT_FOUND]


def test_an_application_that_slept_too_long_says_again_what_it_wants(
    mesh: Mesh, application: Open
) -> None:
    host, sender = application("c", lease_s=2), application("a")
    host.add("desk-7", "pricing")
    live(mesh, 6, sender)
    live(mesh, 2, host, sender)
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]


def test_most_turns_of_a_busy_worker_are_no_matter_of_the_tree_layer(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at links, topics and clocks fifty times a second, however often the worker turns."""
    steps, step = [], TreeService.step

    def counted(self: TreeService, links: Collection[str], now_ms: int) -> None:
        steps.append(now_ms)
        step(self, links, now_ms)

    monkeypatch.setattr(TreeService, "step", counted)
    worker, began_ms = mesh.world.workers["c"], mesh.now_ms()
    for _ in range(500):
        worker.turn(0.0)
    assert mesh.now_ms() == began_ms
    assert len(steps) <= 1


def test_a_worker_that_stood_still_blames_nobody(mesh: Mesh, application: Open) -> None:
    """Its applications lived and its neighbours spoke: it has not read it. Spec: tree_layer 12 (c)."""
    host, sender = application("c", lease_s=3), application("a")
    told: list[object] = []
    host.listener = told.append
    iid = host.add("desk-7", "pricing")
    live(mesh, 1, host, sender)
    service = mesh.world.workers["c"].tree_service
    assert service is not None
    # Its first turn after that, before anything was fetched.
    service.step(["b"], mesh.now_ms() + 30_000)
    live(mesh, 40, host, sender)
    assert told == []
    assert list(host.held.values()) == [iid]
    assert payloads(finished(sender.send("desk-7", "pricing", b"?"), host)) == ["c: ?"]


def test_what_a_former_leader_tells_once_more_is_passed_over(mesh: Mesh, application: Open) -> None:
    """It stood still, or was cut off, while another took over. Spec: tree_layer 12."""
    one = application("a")
    iid = one.add("desk-7", "pricing")
    place = Address(tree_id("desk-7"), "pricing")
    mesh.world.kill("a")
    mesh.world.start("a")
    live(mesh, 15, one)
    service = mesh.world.workers["a"].tree_service
    assert service is not None
    assert service.applications is not None
    held, uuid = one.held, service.applications.uuid
    assert held
    assert held[place] != iid
    told: list[object] = []
    one.listener = told.append
    call = one.send("desk-7", "pricing", b"?")
    writer = mesh.world.kafka["left"].writer("former")
    late = (
        Served("app", uuid, 1),
        Expired("app"),
        RoleLost("app", place, iid, RoleLoss.CLEARED),
        Answered("app", call.name, ReplyKind.NULL, is_last=True),
        PartitionSuspected("b"),
    )
    for event in late:
        writer.produce("mesh.a.app.app", encode_event(event, 1), None, 0)
    live(mesh, 2, one)
    assert (told, one.held) == ([], held)
    assert payloads(call) == ["a: ?"]


def test_an_application_whose_topic_is_refused_keeps_nobody_else_waiting(
    mesh: Mesh, application: Open
) -> None:
    """Nor does what waits for such have no end. Spec: R12."""
    kafka = mesh.world.kafka["left"]
    kafka.refused["mesh.a.app.bad"] = "policy"
    writer = kafka.writer("stranger")
    writer.produce("mesh.a.roles", b"{}", b"bad", 0)
    live(mesh, 3)
    for number in range(5):
        assert application("a", f"good-{number}").add("desk-7", f"role-{number}")
    service = mesh.world.workers["a"].tree_service
    assert service is not None
    assert service._now is not None
    waiting = service._now.writer._waiting
    assert list(waiting) == ["bad"]
    waiting |= {f"gone-{number}": [b"x"] for number in range(GONE_MAX)}
    live(mesh, 2)
    assert len(waiting) <= GONE_MAX


def test_topics_of_applications_have_an_end_and_those_that_stand_are_used(
    mesh: Mesh, application: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that are made up have none, and a node deletes no topic. Spec: tree_layer 13."""
    monkeypatch.setattr("mesh.worker.trees.writing.TOPICS_MAX", 2)
    with application("a", "first"), application("a", "second"):
        pass
    live(mesh, 3)
    with pytest.raises(TransportUnavailableError, match="does not serve application third"):
        mesh.client("a").roles("third").open(5)
    assert "mesh.a.app.third" not in mesh.world.kafka["left"].topics
    with application("a", "second") as back:
        assert back.add("desk-7", "r")


@pytest.mark.parametrize("is_changed", [False, True])
def test_operators_say_when_a_silent_neighbour_counts_as_down(is_changed: bool) -> None:
    """Long before its heartbeats are missed, and from a change on. Spec: tree_layer 12, K32."""
    soon = topology_from_mapping({**CHAIN, "roles": {"pingEvery": "200ms"}})
    mesh = Mesh(topology_from_mapping(CHAIN) if is_changed else soon, trees=Settings())
    sender = mesh.client("a").roles("app").open()
    told: list[object] = []
    sender.listener = told.append
    live(mesh, 2, sender)
    if is_changed:
        service = mesh.world.workers["a"].tree_service
        assert service is not None
        service.relink(Relinked(soon, (), ()), mesh.now_ms())
    mesh.world.pause("b")
    live(mesh, 1.5, sender)
    assert told == []
    live(mesh, 2, sender)
    assert told == [PartitionSuspected("b")]
    mesh.close()


def test_what_is_said_wrongly_changes_nothing_and_stops_nothing(
    said: Said, mesh: Mesh, application: Open
) -> None:
    host, sender = application("c"), application("a")
    told: list[object] = []
    sender.listener = told.append
    kafka = mesh.world.kafka["left"]
    ends = {topic: kafka.topics[topic].logs[0].end for topic in ("mesh.a.sends", "mesh.a.roles")}
    writer = kafka.writer("stranger")
    for key, value in ((b"app", b"{"), (None, b"{}"), (b"a b", b"{}"), (b"app", b'{"do": "fly"}')):
        writer.produce("mesh.a.sends", value, key, 0)
        writer.produce("mesh.a.roles", b"\xff", key, 0)
        writer.produce("mesh.a.to.b.t", value, key, 0)
    host.add("desk-7", "pricing")
    live(mesh, 5, host, sender)
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]
    service = mesh.world.workers["a"].tree_service
    assert service is not None
    assert service.refused == {"mesh.a.sends": 4, "mesh.a.roles": 4}
    unread = said.of("trees.refused")
    places = {(topic, end + number) for topic, end in ends.items() for number in range(4)}
    assert {(one["topic"], one["offset"]) for one in unread} >= places
    assert all(one["log_level"] == "warning" and one["fault"] for one in unread)
    refused = [one for one in told if isinstance(one, Refused)]
    assert {one.code for one in refused} == {"BAD_RECORD"}
    topics = sorted(one.text.partition(" ")[0] for one in refused)
    assert topics == ["mesh.a.roles"] * 2 + ["mesh.a.sends"] * 2
    assert mesh.world.workers["b"].tree_service.refused["mesh.a.to.b.t"] >= 1  # type: ignore[union-attr]


def test_who_begins_and_says_something_wrong_in_one_go_is_told(
    mesh: Mesh, application: Open
) -> None:
    """As two lines of `kcat` do."""
    live(mesh, 2, application("a"))
    kafka = mesh.world.kafka["left"]
    writer, reader = kafka.writer("stranger"), kafka.reader("me")
    for key, value in ((b"me", b'{"lease_s": 60}'), (b"me desk-7 pricing", b'{"extent": 7}')):
        writer.produce("mesh.a.roles", value, key, 0)
    told = TopicPartition("mesh.a.app.me", 0)
    assert mesh.world.run_until(lambda: kafka.admin().ends([told]).get(told, 0) > 0, 20_000)
    reader.assign({told: 0})

    def is_told() -> bool:
        return any(b"BAD_RECORD" in (one.value() or b"") for one in reader.read(0, 100))

    assert mesh.world.run_until(is_told, 20_000)


def test_who_sends_something_wrong_is_told_of_which_call(mesh: Mesh, application: Open) -> None:
    """Whoever waits for several replies knows which one never comes."""
    sender = application("a")
    told: list[object] = []
    sender.listener = told.append
    writer = mesh.world.kafka["left"].writer("stranger")
    for call, more in (("one", ""), ("two", ', "role": "r", "payload": 7'), ("x" * 300, "")):
        value = f'{{"do": "send", "call": "{call}", "tree": "t"{more}}}'
        writer.produce("mesh.a.sends", value.encode(), b"app", 0)
    live(mesh, 3, sender)
    assert [one.call for one in told if isinstance(one, Refused)] == ["one", "two", ""]


def test_the_log_says_which_frames_meant_nothing(said: Said, mesh: Mesh, application: Open) -> None:
    """One line for all of a second, beside the metrics. Spec: tree_layer 12."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    live(mesh, 3, host, sender)
    topic = next(one for one in mesh.world.kafka.values() if "mesh.b.to.c.t" in one.topics)
    reader = topic.reader("look")
    place = TopicPartition("mesh.b.to.c.t", 0)
    reader.assign({place: topic.admin().ends([place])[place] - 1})
    [last] = reader.read(0, 10)
    stranger = topic.writer("stranger")
    stranger.produce("mesh.b.to.c.t", last.value(), last.key(), 0)
    live(mesh, 3, host, sender)
    late = {"log_level": "info", "frames": {"frames read twice": 1}}
    assert said.of("trees.dropped") == [late]
    key, value = encode_frame(Frame(1, 1, Hello(str(UUID(int=7)), 9, 0, "", None, None, 0)))
    stranger.produce("mesh.b.to.c.t", value, key, 0)
    live(mesh, 3, host, sender)
    [made_up] = [one for one in said.of("trees.dropped") if one["log_level"] == "warning"]
    assert made_up["frames"][CONTRADICTS] == 1
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]


def test_a_mesh_that_grows_has_longer_ways(mesh: Mesh) -> None:
    """Frames may cross as many links as there are nodes now, not when the node began."""
    live(mesh, 1)
    service = mesh.world.workers["a"].tree_service
    assert service is not None
    assert service.applications is not None
    nodes = {f"n{number}": {"kafka": "left"} for number in range(100)}
    larger = topology_from_mapping({**CHAIN, "nodes": {**CHAIN["nodes"], **nodes}})  # type: ignore[dict-item]
    service.relink(Relinked(larger, (), ()), mesh.now_ms())
    assert service.applications.node._node.settings.hops_max == 103


def test_a_node_that_operators_give_a_realm_is_in_it(mesh: Mesh, application: Open) -> None:
    """It acted by none, or by its former one, until its worker was started again."""
    host, sender = application("b"), application("a")
    host.add("desk-7", "pricing")
    live(mesh, 2, host, sender)
    [refused] = [finished(sender.send("desk-7", "pricing", b"1", local_realm=True), host).refusal]
    assert refused is not None
    assert refused.code == "NO_REALM"
    for realm in ("asia", "europe"):
        nodes = {name: {**node, "realm": realm} for name, node in CHAIN["nodes"].items()}  # type: ignore[attr-defined]
        changed = topology_from_mapping({**CHAIN, "nodes": nodes})
        for name in "abc":
            service = mesh.world.workers[name].tree_service
            assert service is not None
            service.relink(Relinked(changed, (), ()), mesh.now_ms())
        live(mesh, 3, host, sender)
        call = finished(sender.send("desk-7", "pricing", b"2", local_realm=True), host)
        assert payloads(call) == ["b: 2"]


def test_what_waits_for_a_topic_that_cannot_be_made_has_an_end(
    mesh: Mesh, application: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by number alone: a thousand of the largest messages are a gigabyte."""
    monkeypatch.setattr("mesh.worker.trees.writing.WAITING_BYTES_MAX", 5_000)
    sender = application("a")
    mesh.world.kafka["left"].refused["mesh.a.app.bad"] = "policy"
    writer = mesh.world.kafka["left"].writer("stranger")
    writer.produce("mesh.a.roles", b"{}", b"bad desk-7 pricing", 0)
    live(mesh, 3, sender)
    for _ in range(20):
        sender.send("desk-7", "pricing", bytes(1_000), one_way=True)
    live(mesh, 3, sender)
    service = mesh.world.workers["a"].tree_service
    assert service is not None
    assert service._now is not None
    written = service._now.writer
    assert sum(map(len, written._waiting["bad"])) == written._waiting_bytes <= 5_000
    assert written.lost >= 15
