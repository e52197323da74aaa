"""Roles over whole workers on in-memory Kafka: taken, sent to, answered, lost and found again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pytest
from structlog.testing import capture_logs

from mesh.client.role_messages import Call
from mesh.client.roles import Roles
from mesh.client.watching import Passing, Verdict
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import RoleRefusedError, SubjectError, TransportUnavailableError
from mesh.model.effects import Relinked
from mesh.model.tree_apps import (
    Answered,
    ColourChanged,
    ColourReason,
    Expired,
    FoundTold,
    Loss,
    NewsOf,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleRequest,
    Served,
    SplitTold,
    TreeBuilt,
    Unpartitioned,
)
from mesh.model.tree_frames import Cause, ReplyKind
from mesh.model.trees import Address, tree_id
from mesh.transport.port import TopicPartition
from mesh.trees import utility
from mesh.trees.settings import Settings
from mesh.view.role_requests import role_requests
from mesh.wire.tree_events import encode_event
from mesh.worker.trees.service import TreeService
from mesh.worker.trees.writing import GONE_MAX
from tests.component.in_memory_mesh import CHAIN, Mesh

Open = Callable[..., Roles]


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(topology_from_mapping(CHAIN), trees=Settings())
    yield made
    made.close()


@pytest.fixture
def application(mesh: Mesh) -> Open:
    def opened(node: str, app: str = "app", **options: object) -> Roles:
        return mesh.client(node).roles(app, **options).open()  # type: ignore[arg-type]

    return opened


def serve(*applications: Roles) -> None:
    """Let applications answer what came, with their names."""
    for one in applications:
        one.step()
        while one._messages:
            message = one._messages.popleft()
            if message.wants_answer:
                message.answer(f"{one._node}: {message.payload.decode()}".encode())


def finished(call: Call, *others: Roles) -> Call:
    for _ in range(2_000):
        serve(*others)
        call._roles.step()
        if call.is_done or call.refusal is not None:
            return call
    raise AssertionError(f"no last reply: {call}")


def live(mesh: Mesh, seconds: float, *applications: Roles) -> None:
    """Let time pass; these applications answer, and renew their leases."""
    until = mesh.now_ms() + int(seconds * 1000)
    while mesh.now_ms() < until:
        mesh.pause(0.1)
        serve(*applications)


def payloads(call: Call) -> list[str]:
    return sorted(one.payload.decode() for one in call.replies if one.payload is not None)


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


def test_a_role_moves_to_who_asked_for_it_and_no_restart_brings_it_back(
    mesh: Mesh, application: Open
) -> None:
    """Grant and give up. Spec: tree_layer 5.13, 13."""
    host, sender, other = application("c"), application("a"), application("b")
    host.add("desk-7", "lead", exclusive=True)
    call = sender.send("desk-7", "lead", b"yours?")
    for _ in range(200):
        host.step()
        if host._messages:
            break
    host._messages.popleft().grant(b"take it", give_up=True)
    finished(call, host, other)
    assert [one.kind for one in call.replies] == [ReplyKind.DATA]
    assert (len(host.held), len(sender.held)) == (0, 1)
    for node in ("c", "a"):
        mesh.world.kill(node)
        mesh.world.start(node)
        live(mesh, 15, host, sender, other)
        assert (len(host.held), len(sender.held)) == (0, 1)
        call = finished(other.send("desk-7", "lead", b"who?"), sender, host)
        assert payloads(call) == ["a: who?"]


def test_a_role_that_moves_to_who_has_it_already_is_what_it_was(
    mesh: Mesh, application: Open
) -> None:
    """What stands for it, here and at the client, was the former request. Spec: tree_layer 5.13, 13."""
    host, sender, other = application("c"), application("a"), application("b")
    sender.add("desk-7", "pricing")
    host.add("desk-7", "pricing", protocol="v2")
    call = sender.send("desk-7", "pricing", b"yours?", protocol="v2")
    for _ in range(200):
        host.step()
        if host._messages:
            break
    host._messages.popleft().grant(b"take it", give_up=True)
    finished(call, host, other)
    for _ in range(2):
        live(mesh, 15, host, sender, other)
        stand = role_requests(mesh.world.kafka["left"], "mesh.a.roles")
        assert {key.tree: one.request.protocol for key, one in stand.items()} == {"desk-7": "v2"}
        assert [request.protocol for request in sender._requests._requests.values()] == ["v2"]
        assert (len(host.held), len(sender.held)) == (0, 1)
        call = finished(other.send("desk-7", "pricing", b"who?", protocol="v2"), sender)
        assert payloads(call) == ["a: who?"]
        mesh.world.kill("a")
        mesh.world.start("a")


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
        RoleLost("app", place, iid, Loss.CLEARED),
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


def test_a_cut_and_a_heal_are_told_and_the_far_side_is_found(mesh: Mesh, application: Open) -> None:
    host, sender = application("c"), application("a")
    told: list[str] = []
    sender.listener = lambda news: told.append(type(news).__name__)
    host.add("desk-7", "pricing")
    assert payloads(finished(sender.send("desk-7", "pricing", b"1"), host)) == ["c: 1"]
    mesh.world.cut("a", ["b"])
    live(mesh, 12, host, sender)
    assert told == ["PartitionSuspected"]
    lone = finished(sender.send("desk-7", "pricing", b"2"), host)
    assert [one.kind for one in lone.replies] == [ReplyKind.NOT_FOUND]
    mesh.world.cut("a", [])
    live(mesh, 3, host, sender)
    assert told == ["PartitionSuspected", "Unpartitioned"]
    assert payloads(finished(sender.send("desk-7", "pricing", b"3"), host)) == ["c: 3"]


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
    mesh: Mesh, application: Open
) -> None:
    host, sender = application("c"), application("a")
    told: list[object] = []
    sender.listener = told.append
    writer = mesh.world.kafka["left"].writer("stranger")
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


def test_an_exclusive_role_that_is_held_is_refused(application: Open) -> None:
    host, sender = application("c"), application("a")
    host.add("desk-7", "lead", exclusive=True)
    finished(sender.send("desk-7", "lead", b"1"), host)
    with pytest.raises(RoleRefusedError, match="EXCLUSIVE_HELD"):
        sender.add("desk-7", "lead")
    assert not sender.held


def test_30_a_role_is_taken_politely_only_if_nobody_holds_it(mesh: Mesh, application: Open) -> None:
    """Granted, denied, and of two at one moment exactly one. Spec: tree_layer 5.4, 11 (30)."""
    host, other, third = application("c"), application("a"), application("b")
    assert host.add("desk-7", "lead", exclusive=True, polite=True)
    with pytest.raises(RoleRefusedError, match="EXCLUSIVE_HELD"):
        other.add("desk-7", "lead", exclusive=True, polite=True)
    assert len(host.held) == 1
    host.remove("desk-7", "lead")
    live(mesh, 2, host, other, third)
    request = RoleRequest(Address(tree_id("desk-7"), "lead"), is_exclusive=True, is_polite=True)
    for one in (other, third):
        one._requests.want("desk-7", request)
    live(mesh, 10, host, other, third)
    assert sorted(len(one.held) for one in (other, third)) == [0, 1]


def test_who_asked_politely_and_then_otherwise_holds_the_role(
    mesh: Mesh, application: Open
) -> None:
    """The answer to the polite question came later, from the role's own holder. Spec: 5.4."""
    one, asking = application("a"), application("c")
    told: list[object] = []
    one.listener = told.append
    place = Address(tree_id("desk-7"), "lead")
    for is_polite in (True, False):
        request = RoleRequest(place, is_exclusive=True, is_polite=is_polite)
        one._requests.want("desk-7", request)
    live(mesh, 5, one, asking)
    assert told == []
    mesh.world.kill("a")
    mesh.world.start("a")
    live(mesh, 15, one, asking)
    assert list(one.held) == [place]
    assert payloads(finished(asking.send("desk-7", "lead", b"?"), one)) == ["a: ?"]


def test_a_holder_that_comes_back_takes_nothing_from_who_took_over(
    mesh: Mesh, application: Open
) -> None:
    """And none that comes back at once loses to what its former instance has left behind."""
    host, other, sender = application("c"), application("a"), application("b")
    host.add("desk-7", "lead", exclusive=True)
    finished(sender.send("desk-7", "lead", b"1"), host)
    mesh.world.kill("c")
    mesh.world.start("c")
    live(mesh, 15, host, other, sender)
    assert payloads(finished(sender.send("desk-7", "lead", b"2"), host)) == ["c: 2"]
    mesh.world.kill("c")
    other.clear("desk-7", "lead")
    live(mesh, 1, other)
    other.add("desk-7", "lead", exclusive=True)
    mesh.world.start("c")
    live(mesh, 15, host, other, sender)
    assert (len(host.held), len(other.held)) == (0, 1)
    assert payloads(finished(sender.send("desk-7", "lead", b"3"), host, other)) == ["a: 3"]


def test_an_application_on_the_way_changes_what_passes(mesh: Mesh, application: Open) -> None:
    """It holds a message, changes it later, takes out a reply. Spec: tree_layer 6.8."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    host.add("desk-7", "pricing")
    seen: list[Passing] = []
    verdicts = [Verdict.SUSPEND, Verdict.CONTINUE]

    def watch(passing: Passing) -> Verdict:
        seen.append(passing)
        return verdicts.pop(0) if verdicts else Verdict.CONSUME

    spy.snoop(watch, "desk-7")
    live(mesh, 1, host, sender, spy)
    call = sender.send("desk-7", "pricing", b"how much?")
    live(mesh, 3, host, sender, spy)
    assert [(one.payload, one.shown.kind, one.waits) for one in seen] == [
        (b"how much?", None, True)
    ]
    seen[0].resume(b"how little?")
    live(mesh, 3, host, sender, spy)
    assert payloads(call) == ["c: how little?"]
    lost = finished(sender.send("desk-7", "pricing", b"lost"), host, spy)
    assert [one.kind for one in lost.replies] == [ReplyKind.END]
    assert seen[-1].payload == b"lost"
    spy.unsnoop("desk-7")
    live(mesh, 1, host, sender, spy)
    assert payloads(finished(sender.send("desk-7", "pricing", b"free"), host, spy)) == ["c: free"]


def test_watches_that_overlap_are_all_asked(mesh: Mesh, application: Open) -> None:
    """Each of them sees what it asked for; what passes waits for all that hold it."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    host.add("desk-7", "pricing")
    every: list[bytes] = []
    held: list[Passing] = []

    def look(passing: Passing) -> Verdict:
        every.append(passing.payload)
        return Verdict.CONSUME  # in vain: this watch holds nothing

    def hold(passing: Passing) -> Verdict:
        if passing.shown.kind is not None:
            return Verdict.CONTINUE
        held.append(passing)
        return Verdict.SUSPEND

    spy.snoop(look, holds=False)
    spy.snoop(hold, "desk-7")
    live(mesh, 1, host, sender, spy)
    call = sender.send("desk-7", "pricing", b"how much?")
    live(mesh, 3, host, sender, spy)
    assert (every, len(held), call.replies) == ([b"how much?"], 1, [])
    held[0].resume()
    live(mesh, 3, host, sender, spy)
    assert payloads(call) == ["c: how much?"]
    assert every == [b"how much?", b"c: how much?"]


def test_who_watches_goes_on_watching_when_its_node_comes_back(
    mesh: Mesh, application: Open
) -> None:
    """The new incarnation knows nothing of it; the client says it again."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    host.add("desk-7", "pricing")
    seen: list[bytes] = []

    def watch(passing: Passing) -> Verdict:
        seen.append(passing.payload)
        return Verdict.CONTINUE

    spy.snoop(watch, holds=False)
    mesh.world.kill("b")
    mesh.world.start("b")
    live(mesh, 20, host, sender, spy)
    call = sender.send("desk-7", "pricing", b"again")
    live(mesh, 3, host, sender, spy)
    assert payloads(call) == ["c: again"]
    assert seen == [b"again", b"c: again"]


def test_a_split_is_told_once_to_who_watches_for_it(mesh: Mesh, application: Open) -> None:
    """Both sides, with whom they reach and whom not; a minority can refuse writes. Spec: PAT-12."""
    lone, other, deaf = application("a"), application("c"), application("c", "deaf")
    told: dict[str, list[object]] = {"a": [], "c": [], "deaf": []}
    for name, one in (("a", lone), ("c", other), ("deaf", deaf)):
        one.listener = told[name].append
    lone.listen("splits"), other.listen("splits")
    live(mesh, 2, lone, other, deaf)
    for _ in range(2):
        mesh.world.cut("a", ["b"])
        live(mesh, 20, lone, other, deaf)
        mesh.world.cut("a", [])
        live(mesh, 20, lone, other, deaf)
    splits = {
        name: [one for one in news if isinstance(one, SplitTold)] for name, news in told.items()
    }
    heals = {
        name: [one for one in news if isinstance(one, Unpartitioned)] for name, news in told.items()
    }
    assert splits["a"] == [SplitTold(("a",), ("b", "c"))] * 2
    assert splits["c"] == [SplitTold(("b", "c"), ("a",))] * 2
    assert [one.is_minority for one in (splits["a"][0], splits["c"][0])] == [True, False]
    found = [one for one in told["c"] if isinstance(one, FoundTold)]
    assert found == [FoundTold(("a", "b", "c"), (), ("a",))] * 2
    assert splits["deaf"] == []
    assert [len(heals[name]) for name in ("a", "c", "deaf")] == [2, 2, 2]


def test_a_node_that_restarts_is_missed_and_found_each_time(mesh: Mesh, application: Open) -> None:
    """It joins without a colour: nothing tells the others but that somebody counts. Spec: 7.4."""
    watcher = application("a")
    told: list[object] = []
    watcher.listener = told.append
    watcher.listen("splits")
    live(mesh, 2, watcher)
    for _ in range(2):
        mesh.world.kill("c")
        live(mesh, 20, watcher)
        mesh.world.start("c")
        live(mesh, 50, watcher)
    heard = [one for one in told if isinstance(one, SplitTold | FoundTold)]
    assert (
        heard
        == [
            SplitTold(("a", "b"), ("c",)),
            FoundTold(("a", "b", "c"), (), ("c",)),
        ]
        * 2
    )
    watcher.stop_listening("splits")
    live(mesh, 1, watcher)
    mesh.world.kill("c")
    live(mesh, 20, watcher)
    assert [one for one in told if isinstance(one, SplitTold | FoundTold)] == heard


def test_colours_are_told_at_both_ends_of_a_cut_and_are_one_again_after_it(
    mesh: Mesh, application: Open
) -> None:
    """Also by the next incarnation of the node, unasked. Spec: tree_layer 7.1, 7.4."""
    ends = {"a": application("a"), "c": application("c")}
    told: dict[str, list[object]] = {"a": [], "c": []}
    for name, one in ends.items():
        one.listener = told[name].append
        one.add("desk-7", "pricing")
        one.listen(NewsOf.COLOURS)
    live(mesh, 2, *ends.values())
    assert _colours(told["a"])[-1].new == _colours(told["c"])[-1].new
    mesh.world.cut("a", ["b"])
    live(mesh, 15, *ends.values())
    apart = {name: _colours(told[name])[-1] for name in told}
    assert apart["a"].new != apart["c"].new
    assert (apart["a"].reason, apart["c"].reason) == (ColourReason.LINK_LOST, ColourReason.SPREAD)
    mesh.world.cut("a", [])
    live(mesh, 3, *ends.values())
    assert _colours(told["a"])[-1].new == _colours(told["c"])[-1].new
    heals = [one for one in told["a"] if isinstance(one, Unpartitioned)]
    assert [(one.near_colour, one.far_colour) for one in heals] == [
        (apart["a"].new, apart["c"].new)
    ]
    mesh.world.kill("a")
    mesh.world.start("a")
    live(mesh, 15, *ends.values())
    assert _colours(told["a"])[-1].new == _colours(told["c"])[-1].new


def _colours(told: list[object]) -> list[ColourChanged]:
    return [one for one in told if isinstance(one, ColourChanged)]


def test_an_application_that_learns_of_a_tree_watches_what_passes_on_it(
    mesh: Mesh, application: Open
) -> None:
    """Trees are learned from what passes: nobody told the node of this one. Spec: tree_layer 8."""
    host, sender, spy = application("c"), application("a"), application("b", "spy")
    trees: list[str] = []
    passed: list[bytes] = []

    def learn(news: object) -> None:
        if isinstance(news, TreeBuilt) and news.tree == tree_id("desk-7"):
            trees.append(news.tree)
            spy.snoop(lambda one: passed.append(one.payload) or Verdict.CONTINUE, news.tree)

    spy.listener = learn
    spy.listen("trees")
    live(mesh, 1, host, sender, spy)
    host.add("desk-7", "pricing")
    live(mesh, 2, host, sender, spy)
    assert trees == [tree_id("desk-7")]
    call = finished(sender.send("desk-7", "pricing", b"how much?"), host, spy)
    assert payloads(call) == ["c: how much?"]
    assert passed == [b"how much?", b"c: how much?"]
    with pytest.raises(SubjectError, match="write one of splits, colours, trees"):
        spy.listen("weather")


def test_everybody_can_be_asked_and_so_can_a_tree(mesh: Mesh, application: Open) -> None:
    """By the client as by `kcat`: a send like any other. Spec: tree_layer 8 (getTreeNodes)."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    finished(sender.send("desk-7", "pricing", b"1"), host)
    assert [(one.node, one.links) for one in sender.nodes()] == [
        ("a", ("b",)), ("b", ("a", "c")), ("c", ("b",)),
    ]  # fmt: skip
    assert [(one.node, one.neighbours) for one in sender.nodes("desk-7")] == [
        ("a", ("b",)), ("b", ("a", "c")), ("c", ("b",)),
    ]  # fmt: skip
    assert sender.nodes("desk-8") == []
    with pytest.raises(RoleRefusedError, match="RESERVED"):
        host.add("$nodes", "node")


def test_who_asks_everybody_is_not_stopped_by_what_no_node_says(
    application: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write on a tree link may answer for a node."""
    said = utility.encode_node
    words = {"b": b"x", "c": b"[" * 100_000}
    monkeypatch.setattr(utility, "encode_node", lambda one: words.get(one.node) or said(one))
    assert [one.node for one in application("a").nodes()] == ["a"]


def test_the_log_says_which_frames_meant_nothing(mesh: Mesh, application: Open) -> None:
    """One line for all of a second, beside the metrics. Spec: tree_layer 12."""
    host, sender = application("c"), application("a")
    host.add("desk-7", "pricing")
    live(mesh, 3, host, sender)
    topic = next(one for one in mesh.world.kafka.values() if "mesh.b.to.c.t" in one.topics)
    reader = topic.reader("look")
    place = TopicPartition("mesh.b.to.c.t", 0)
    reader.assign({place: topic.admin().ends([place])[place] - 1})
    [last] = reader.read(0, 10)
    with capture_logs() as lines:
        topic.writer("stranger").produce("mesh.b.to.c.t", last.value(), last.key(), 0)
        live(mesh, 3, host, sender)
    dropped = [one for one in lines if one["event"] == "trees.dropped"]
    assert [one["frames"] for one in dropped] == [{"frames read twice": 1}]
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
