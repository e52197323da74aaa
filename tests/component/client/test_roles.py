"""An application that takes roles and sends to roles, as the client library has it. tree_layer 8."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from mesh.client.role_connection import RoleConnection
from mesh.client.roles import Roles
from mesh.client.watching import Verdict
from mesh.errors import (
    ClosedError,
    MeshError,
    RoleRefusedError,
    SubjectError,
    TransportUnavailableError,
)
from mesh.model.tree_apps import Refused, Resumed, RoleRequest, RoutesAsked
from mesh.model.tree_frames import Cause, ReplyKind
from mesh.model.trees import Address, InstanceId, MessageId, tree_id
from mesh.testing.memory import InMemoryMesh
from mesh.transport.port import Reader, Record, TopicPartition
from mesh.wire.tree_apps import encode_lease
from tests.patience import PATIENCE_S

SPEC = {
    "kafka": {"k": {}},
    "nodes": {"a": {"kafka": "k"}, "b": {"kafka": "k"}},
    "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
}


@pytest.fixture(scope="module")
def mesh() -> Iterator[InMemoryMesh]:
    with InMemoryMesh(SPEC) as one:
        yield one


@pytest.fixture
def roles(mesh: InMemoryMesh) -> Iterator[Roles]:
    with mesh.client("a").roles("desk") as one:
        yield one


def reader_of(roles: Roles) -> Reader:
    assert roles._connection is not None
    assert roles._connection._reader is not None
    return roles._connection._reader


def test_what_cannot_be_sent_is_refused_at_once(roles: Roles) -> None:
    """Its node would only log it: whoever waits for a reply would wait in vain. Spec: tree_layer 6.1."""
    with pytest.raises(SubjectError, match="one_way goes with neither"):
        roles.send("t", "r", one_way=True, one_instance=True)
    with pytest.raises(SubjectError, match="900001 bytes; at most 900000 are allowed"):
        roles.send("t", "r", b"x" * 900_000, header=b"x")
    with pytest.raises(TypeError, match="payload must be bytes, not str"):
        roles.send("t", "r", "text")  # type: ignore[arg-type]
    with pytest.raises(SubjectError, match="role: a name is empty"):
        roles.send("t", "")
    with pytest.raises(SubjectError, match="protocol: 'a b' has spaces"):
        roles.send("t", "r", protocol="a b")
    with pytest.raises(SubjectError, match="iid must be at most 32 hexadecimal digits"):
        roles.send("t", "r", iid=InstanceId(1 << 128))
    assert not roles._calls


def test_what_means_nothing_is_passed_over_and_counted(mesh: InMemoryMesh, roles: Roles) -> None:
    """Nothing disappears silently, whoever wrote it into the topic. Spec: DESIGN 4.4."""
    roles.add("t", "r")
    mesh.pass_time(0.5)
    assert roles.unreadable == 0
    assert roles._connection is not None
    roles._connection._writer.produce("mesh.a.app.desk", b"junk", None, 0)
    call = roles.send("t", "r", b"v")
    [message] = next(taken for _ in range(200) if roles.step() and (taken := roles.taken()))
    message.answer(b"a")
    assert b"a" in [one.payload for one in call.wait()]
    assert roles.unreadable == 1


def test_a_payload_may_be_any_kind_of_bytes(mesh: InMemoryMesh, roles: Roles) -> None:
    roles.add("t", "r")
    mesh.pass_time(0.5)
    call = roles.send("t", "r", memoryview(b"\xffv"), header=bytearray(b"h"))  # type: ignore[arg-type]
    [message] = next(taken for _ in range(200) if roles.step() and (taken := roles.taken()))
    assert (message.payload, message.header) == (b"\xffv", b"h")
    message.answer(bytearray(b"\xfea"))
    assert b"\xfea" in [one.payload for one in call.wait()]


def test_what_cannot_be_requested_for_is_refused_at_once_and_nothing_is_asked_for(
    mesh: InMemoryMesh, roles: Roles
) -> None:
    """Its node would only log it: whoever waits for the role would wait in vain."""
    with pytest.raises(SubjectError, match="polite goes with exclusive"):
        roles.add("t", "r", polite=True)
    with pytest.raises(SubjectError, match='protocol: "\\$x" begins with'):
        roles.add("t", "r", protocol="$x")
    with pytest.raises(SubjectError, match="extent must be one of cloud, realm, node"):
        roles.add("t", "r", extent="galaxy")  # type: ignore[arg-type]
    good, other = (
        RoleRequest(Address(tree_id("t"), "good")),
        RoleRequest(Address(tree_id("u"), "r")),
    )
    with pytest.raises(SubjectError, match="'t' is not the tree of the role"):
        roles.add_all([("t", good), ("t", other)])
    with pytest.raises(SubjectError, match="protocol: 'a b' has spaces"):
        roles.snoop(lambda _: Verdict.CONTINUE, protocol="a b")
    mesh.pass_time(0.5)
    roles.step()
    assert not roles.held
    assert not list(roles._watches.wanted())


def test_the_largest_payload_comes_whatever_its_bytes(mesh: InMemoryMesh, roles: Roles) -> None:
    """Of control characters JSON makes six for one."""
    roles.add("t", "big")
    mesh.pass_time(0.5)
    call = roles.send("t", "big", bytes(900_000), timeout_s=10)
    [message] = next(taken for _ in range(200) if roles.step() and (taken := roles.taken()))
    assert message.payload == bytes(900_000)
    with pytest.raises(SubjectError, match="at most 900000 are allowed"):
        message.answer(bytes(900_001))
    message.answer(bytes(900_000))
    assert bytes(900_000) in [one.payload for one in call.wait()]


def test_what_comes_behind_news_that_its_listener_stumbles_over_is_not_lost(
    mesh: InMemoryMesh, roles: Roles
) -> None:
    """Replies among it: whoever waits for them would have waited in vain."""

    def stumbles(news: object) -> None:
        raise RuntimeError("boom")

    roles.listener = stumbles
    roles.say(Resumed("desk", MessageId(5)))  # refused, which the listener is told
    call = roles.send("t", "nobody", timeout_s=10)
    mesh.pass_time(3)
    with pytest.raises(RuntimeError, match="boom"):
        roles.step()
    assert [one.kind for one in call.wait()] == [ReplyKind.NOT_FOUND]


def test_who_comes_back_to_a_role_that_somebody_took_over_hears_of_it() -> None:
    """Nobody waits for it by then: it would go on as its holder, beside the other. Spec: tree_layer 5.4."""
    with InMemoryMesh(SPEC) as mesh:
        first = mesh.client("a").roles("first", lease_s=600).open()
        heard: list[object] = []
        first.listener = heard.append
        first.add("t", "lead", exclusive=True)
        mesh.kill("a")
        mesh.client("b").roles("second", lease_s=600).open().add("t", "lead", exclusive=True)
        mesh.restart("a")
        mesh.pass_time(10)
        while first.step():
            pass
        assert first.held == {}
        [refused] = [one for one in heard if isinstance(one, Refused)]
        assert (refused.code, refused.address) == ("EXCLUSIVE_HELD", Address(tree_id("t"), "lead"))


def test_a_role_that_is_asked_for_anew_is_in_force_anew(mesh: InMemoryMesh, roles: Roles) -> None:
    """Shared, then alone: what is returned is the instance that is held alone."""
    shared = roles.add("t", "lead")
    assert roles.add("t", "lead") == shared
    alone = roles.add("t", "lead", exclusive=True)
    assert alone != shared
    assert roles.add("t", "lead", exclusive=True) == alone
    with mesh.client("b").roles("rival") as rival:
        mesh.pass_time(1.0)
        with pytest.raises(RoleRefusedError, match="EXCLUSIVE_HELD"):
            rival.add("t", "lead", exclusive=True, polite=True)


def test_what_was_asked_for_before_it_could_be_is_not_asked_for_later(mesh: InMemoryMesh) -> None:
    """The call was refused, so nobody expects the role when all is asked for once more."""
    early = mesh.client("a").roles("early")
    with pytest.raises(TransportUnavailableError, match="early is not open; call `open`"):
        early.add("t", "early")
    with early:
        with mesh.client("a").roles("early"):
            pass  # another process of this name: its end is the end of the lease of both
        for _ in range(3):
            mesh.pass_time(1)
            while early.step():
                pass
        assert early.held == {}


def test_several_roles_are_asked_for_by_the_name_of_their_tree(roles: Roles) -> None:
    """An application knows names; the UUID of one it may write as well."""
    named = [RoleRequest(Address("desk", "a")), RoleRequest(Address(tree_id("desk"), "b"))]  # type: ignore[arg-type]
    assert len(set(roles.add_all([("desk", one) for one in named]))) == 2
    assert set(roles.held) == {Address(tree_id("desk"), "a"), Address(tree_id("desk"), "b")}


def test_several_roles_are_given_up_in_one_go(mesh: InMemoryMesh, roles: Roles) -> None:
    """What was asked for and is not in force yet is not held when its node says so."""
    requests = [
        ("many", RoleRequest(Address(tree_id("many"), f"r{number}"))) for number in range(20)
    ]
    roles.add_all(requests)
    with pytest.raises(TimeoutError):
        roles.add("many", "late", timeout_s=0)
    names = [("many", request.address.role) for _, request in requests]
    roles.remove_all([*names, ("many", "late")])
    mesh.pass_time(1)
    while roles.step():
        pass
    assert not roles.held
    assert [len(roles.routes("many", role).routes) for _, role in names[:3]] == [0, 0, 0]
    with pytest.raises(SubjectError, match="role: a name is empty"):
        roles.remove_all([("many", "r0"), ("many", "")])


def test_what_kafka_has_not_taken_is_asked_for_and_given_up_later(mesh: InMemoryMesh) -> None:
    """It may be away for longer than records wait for it. Spec: tree_layer 13."""
    kafka = mesh._world.kafka["k"]
    with mesh.client("a").roles("patient", lease_s=3_600) as roles:
        given_up = Address(tree_id("t"), "given-up")
        roles.add("t", "given-up")
        kafka.available = False
        roles.remove("t", "given-up")
        with pytest.raises(TimeoutError):
            roles.add("t", "wanted", timeout_s=0)
        roles.step(3)
        kafka.available = True
        for _ in range(5):
            mesh.pass_time(2)
            roles.step()
        assert [one.role for one in roles.held] == ["wanted"]
        assert not roles.routes("t", "given-up").routes
        assert roles.routes("t", "wanted").routes
        roles.add("t", "given-up")
        mesh.pass_time(5)
        roles.step()
        assert given_up in roles.held, "it is wanted again, and no older word undoes that"


def test_an_application_that_goes_on_with_its_former_life_has_its_roles(mesh: InMemoryMesh) -> None:
    """It asks for what it has already: the node said nothing, and it waited in vain."""
    former = mesh.client("a").roles("heir").open()
    iid = former.add("t", "heir", exclusive=True)
    former.leave()
    with mesh.client("a").roles("heir", is_new=False) as heir:
        assert not heir.held
        assert heir.add("t", "heir", exclusive=True, timeout_s=5) == iid
        assert list(heir.held.values()) == [iid]


@pytest.mark.parametrize("idle_s", [9.9, 10.0, 10.1, 60])
def test_who_sends_seldom_is_answered(mesh: InMemoryMesh, roles: Roles, idle_s: float) -> None:
    """Its lease has ended meanwhile: what told of that ended the next send with a null."""
    with mesh.client("b").roles("host", lease_s=600) as host:
        host.add("t", "seldom")
        mesh.pass_time(1)
        for _ in range(3):
            mesh.pass_time(idle_s)
            call = roles.send("t", "seldom", timeout_s=10)
            [message] = next(taken for _ in range(200) if host.step() and (taken := host.taken()))
            message.answer(b"here")
            assert next(one.kind for one in call.wait()) is ReplyKind.DATA


def test_who_waits_for_no_reply_waits_for_nothing(mesh: InMemoryMesh, roles: Roles) -> None:
    mesh.pass_time(60)
    began_ms = roles._now_ms()
    roles.send("t", "nobody", one_way=True)
    assert roles._now_ms() == began_ms


@pytest.mark.parametrize("most", [60_000, 1])
def test_all_nodes_are_told_however_small_messages_are(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some were left out in silence: what they say of themselves came to more than one message."""
    monkeypatch.setattr("mesh.worker.trees.service.COLLECTED_BYTES_MIN", most)
    with (
        InMemoryMesh({**SPEC, "maxMessageBytes": 50}) as small,
        small.client("a").roles("desk") as roles,
    ):
        small.pass_time(1)
        if most > 1:
            assert [one.node for one in roles.nodes()] == ["a", "b"]
        else:
            with pytest.raises(TimeoutError, match="no word of all nodes"):
                roles.nodes(timeout_s=3)


def test_an_application_that_is_opened_again_begins_anew(mesh: InMemoryMesh) -> None:
    """What its former life held is gone, and nobody is told otherwise."""
    roles = mesh.client("a").roles("twice")
    with roles:
        first = roles.add("t", "again")
    assert not roles.held
    with roles:
        second = roles.add("t", "again")
        assert second != first
        assert list(roles.held.values()) == [second]


def test_one_that_is_open_is_not_opened_again(mesh: InMemoryMesh, roles: Roles) -> None:
    """It would have lost its roles, and nobody have told it."""
    iid = roles.add("t", "open")
    with roles.open() as same:
        assert same is roles
        assert list(roles.held.values()) == [iid]
        assert [one.iid for one in roles.routes("t", "open").routes] == [iid]


def test_an_application_that_could_not_be_opened_can_be_later(mesh: InMemoryMesh) -> None:
    roles = mesh.client("b").roles("patient")
    mesh.kill("b")
    with pytest.raises(TransportUnavailableError, match="does not serve application patient"):
        roles.open(timeout_s=1)
    with pytest.raises(TransportUnavailableError, match="is not open; call `open`"):
        roles.send("t", "r")
    mesh.restart("b")
    with roles:
        assert roles.add("t", "late")


def test_two_processes_of_one_name_may_begin_in_one_moment(
    mesh: InMemoryMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two `mesh role send` at one node one was told that the node does not serve it."""
    first, second = (mesh.client("a").roles("both", is_new=False) for _ in range(2))
    renew = RoleConnection.renew

    def renews(connection: RoleConnection, hello: str = "") -> None:
        renew(connection, hello)
        if connection is first._connection:
            value = encode_lease(10_000, "another word")
            connection._writer.produce("mesh.a.roles", value, b"both", 0)

    monkeypatch.setattr(RoleConnection, "renew", renews)
    with first.open(timeout_s=5), second:
        assert second.add("t", "both")


@pytest.mark.parametrize("ends", ["the newer begins", "the older ends"])
def test_of_two_processes_of_one_name_whoever_lives_has_its_roles(
    mesh: InMemoryMesh, ends: str
) -> None:
    """As where one takes the place of another: it held roles that were gone, and nobody said so."""
    older = mesh.client("a").roles("twin").open()
    newer = mesh.client("a").roles("twin").open()
    if ends == "the newer begins":
        newer.leave()
        newer = mesh.client("a").roles("twin")
    alone = older if ends == "the newer begins" else newer
    alone.add("t", "twin")
    call = alone.send("t", "twin", timeout_s=10)
    newer.open() if ends == "the newer begins" else older.close()
    assert [one.kind for one in call.wait()] == [ReplyKind.NULL]
    mesh.pass_time(1)
    while alone.step():
        alone.taken()
    with mesh.client("b").roles("asking") as asking:
        call = asking.send("t", "twin", timeout_s=10)
        [message] = next(taken for _ in range(200) if alone.step() and (taken := alone.taken()))
        message.answer(b"here")
        assert b"here" in [one.payload for one in call.wait()]
    newer.close()
    older.close()


def test_a_closed_client_s_applications_say_so(mesh: InMemoryMesh) -> None:
    client = mesh.client("a")
    roles = client.roles("closed").open()
    call = roles.send("t", "nobody")
    client.close()
    for use in (roles.open, roles.step, call.wait, lambda: roles.send("t", "r")):
        with pytest.raises(ClosedError, match="connect again"):
            use()
    roles.close()


def test_a_fork_leaves_an_application_to_the_process_that_made_it(
    roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads of the client library stay behind there: whoever waited would wait for ever."""
    iid = roles.add("t", "forked")
    call = roles.send("t", "nobody")
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        for use in (roles.open, roles.step, call.wait, lambda: roles.send("t", "r")):
            with pytest.raises(ClosedError, match=r"application desk was made before .* forked"):
                use()
        roles.close()
    assert [one.kind for one in call.wait()] == [ReplyKind.NOT_FOUND]
    assert list(roles.held.values()) == [iid]


def test_the_shortest_lease_is_one_that_a_node_takes(mesh: InMemoryMesh) -> None:
    with mesh.client("a").roles("brief", lease_s=0.0001) as roles:
        assert roles.app == "brief"


def test_who_missed_what_it_was_told_lives_anew(mesh: InMemoryMesh, roles: Roles) -> None:
    """Away for longer than its topic keeps: nothing was heard any more, for good."""
    first = roles.add("t", "sleeper")
    lost = roles.send("t", "nobody", b"", timeout_s=5)
    mesh.pass_time(30)  # the lease ends meanwhile, and what tells of that is deleted
    admin = mesh._world.kafka["k"].admin()
    place = TopicPartition("mesh.a.app.desk", 0)
    admin.delete_before({place: admin.ends([place])[place]})
    assert any(roles.step() for _ in range(200))
    assert [one.kind for one in lost.wait()] == [ReplyKind.NULL]
    mesh.pass_time(1)
    with mesh.client("b").roles("asking") as asking:
        call = asking.send("t", "sleeper", b"there?", timeout_s=10)
        [message] = next(taken for _ in range(200) if roles.step() and (taken := roles.taken()))
        message.answer(b"here")
        assert b"here" in [one.payload for one in call.wait()]
    assert first not in roles.held.values()
    assert len(roles.held) == 1


def test_what_waited_as_a_lease_ended_ends_with_a_null(mesh: InMemoryMesh, roles: Roles) -> None:
    """The node does not know any more who asked, and would never say so. Spec: tree_layer 13."""
    roles.add("t", "late")
    call = roles.send("t", "late", b"?", timeout_s=5)
    mesh.pass_time(30)
    [last] = call.wait()
    assert (last.kind, last.cause, last.is_last) == (ReplyKind.NULL, Cause.APPLICATION_GONE, True)
    mesh.pass_time(1)
    roles.step()
    assert len(roles.held) == 1


def test_a_call_of_which_the_node_says_nothing_more_ends_with_a_null(
    mesh: InMemoryMesh, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tells its end was lost: each such call was kept for as long as the application lived."""
    monkeypatch.setattr("mesh.client.role_messages.ENDED_MS", 5_000)
    roles.add("t", "silent")
    mesh.pass_time(0.5)
    call = roles.send("t", "silent", b"?", timeout_s=1)
    with pytest.raises(TimeoutError):
        call.wait()
    reader_of(roles).unassign([TopicPartition("mesh.a.app.desk", 0)])
    mesh.pass_time(1)
    roles.step()
    assert not call.is_done
    mesh.pass_time(4)
    roles.step()
    assert not roles._calls
    [last] = call.wait()
    assert (last.kind, last.cause, last.is_last) == (ReplyKind.NULL, Cause.SWEPT, True)


def test_routes_are_told_whole_and_nothing_is_kept_of_those_that_come_too_late(
    mesh: InMemoryMesh, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mesh.trees.applications.known_routes.ROUTES_MAX", 2)
    others = [mesh.client("a").roles(f"one-{number}").open() for number in range(4)]
    for one in (roles, *others):
        one.add("t", "shared")
    told = roles.routes("t", "shared")
    assert (len(told.routes), told.has_more) == (5, False)
    roles.say(RoutesAsked("desk", "too-late", Address(tree_id("t"), "shared")))
    mesh.pass_time(1)
    while roles.step():
        pass
    assert not roles._asked_routes
    for one in others:
        one.close()


def test_a_wait_of_no_number_asks_for_nothing(mesh: InMemoryMesh, roles: Roles) -> None:
    """It would be told as soon as the role was there, or the message gone."""
    nan = float("nan")
    for use in (roles.add, roles.send, roles.routes):
        with pytest.raises(ValueError, match="a timeout of nan"):
            use("desk", "pricing", timeout_s=nan)
    mesh.pass_time(3.0)
    roles.step(1.0)
    assert (roles.held, roles.taken()) == ({}, [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"one_way": "no"}, "one_way must be True or False, not 'no'"),
        ({"payload": None}, "payload must be bytes, not None; write b'' for nothing"),
        ({"header": None}, "header must be bytes, not None"),
        ({"iid": None}, "iid must be the id of an instance, not None"),
        ({"iid": "5"}, "iid must be the id of an instance, not '5'"),
        ({"protocol": b"p"}, "protocol must be text, not bytes; decode it"),
    ],
)
def test_a_send_of_another_kind_is_told(given: dict[str, object], said: str, roles: Roles) -> None:
    """What was said to one instance would go to all of them where that is lost."""
    with pytest.raises(TypeError, match=said):
        roles.send("desk", "pricing", **given)  # type: ignore[arg-type]


def test_an_answer_that_says_no_is_not_the_last(roles: Roles) -> None:
    roles.add("desk", "pricing")
    with pytest.raises(TypeError, match="protocol must be text, not bytes"):
        roles.add("desk", "risk", protocol=b"p")  # type: ignore[arg-type]
    call = roles.send("desk", "pricing")
    message = next(roles.messages())
    with pytest.raises(TypeError, match="is_last must be True or False, not 'no'"):
        message.answer(b"1", is_last="no")  # type: ignore[arg-type]
    message.answer(b"1", is_last=False)
    message.answer(b"2")
    assert [one.payload for one in call.wait() if one.payload] == [b"1", b"2"]


def test_what_came_as_ctrl_c_did_is_taken_up_by_the_next_step(
    mesh: InMemoryMesh, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message, or a reply, would be gone, and somebody would wait for it in vain."""
    roles.add("desk", "pricing")
    call = roles.send("desk", "pricing", b"how much?")
    mesh.pass_time(3.0)
    reader = reader_of(roles)
    reads = reader.read

    def is_interrupted(timeout_s: float, limit: int) -> Sequence[Record]:
        if reads(timeout_s, limit):
            raise KeyboardInterrupt
        return ()

    for interrupted in (lambda: next(roles.messages()), call.wait):
        with monkeypatch.context() as ctrl_c:
            ctrl_c.setattr(reader, "read", is_interrupted)
            with pytest.raises(KeyboardInterrupt):
                interrupted()
        if not call.is_done:
            for message in roles.messages(timeout_s=1.0):
                message.answer(b"42")
                break
            mesh.pass_time(3.0)
    assert [one.payload for one in call.wait()] == [b"42"]


def test_a_listener_may_close_its_application(mesh: InMemoryMesh, roles: Roles) -> None:
    """What was told behind that concerns nobody any more."""
    other = mesh.client("a").roles("other").open()
    other.listener = lambda _: other.close()
    for number in (5, 6):
        other.say(Resumed("other", MessageId(number)))  # refused, which the listener is told
    mesh.pass_time(3)
    other.step()
    with pytest.raises(TransportUnavailableError, match="other is not open; call `open`"):
        other.step()


def test_who_closes_the_client_waits_until_its_applications_read_no_more(
    mesh: InMemoryMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have threads of their own, and the client library is not closed under a read."""
    client = mesh.client("a")
    application = client.roles("apart").open()
    reader, order = reader_of(application), list[str]()
    reads, goes_on = threading.Event(), threading.Event()

    def read(_timeout_s: float, _limit: int) -> Sequence[Record]:
        reads.set()
        assert goes_on.wait(20.0)
        order.append("read")
        return ()

    def close() -> None:
        order.append("closed")

    monkeypatch.setattr(reader, "read", read)
    monkeypatch.setattr(reader, "close", close)
    told: list[Exception] = []

    def live() -> None:
        try:
            while True:
                application.step(60.0)
        except MeshError as error:
            told.append(error)

    threads = [threading.Thread(target=live), threading.Thread(target=client.close)]
    threads[0].start()
    assert reads.wait(20.0)
    threads[1].start()
    threads[1].join(0.3)  # ends at once if it waits for nobody
    goes_on.set()
    for one in threads:
        one.join(PATIENCE_S)
        assert not one.is_alive()
    assert order == ["read", "closed"]
    assert [type(one) for one in told] == [ClosedError]


def test_an_application_ends_quietly_beside_its_client(
    mesh: InMemoryMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread closes the client in that very moment: there is nothing left to be told."""
    client = mesh.client("a")
    application = client.roles("apart").open()
    connection = application._connection
    assert connection is not None
    ends = connection.end_lease

    def end_late() -> None:
        client.close()
        ends()

    monkeypatch.setattr(connection, "end_lease", end_late)
    application.close()
    with pytest.raises(ClosedError):
        application.step(0.0)


def test_who_steps_for_longer_than_the_lease_keeps_its_roles(
    mesh: InMemoryMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real Kafka time passes within one read, and the lease was not renewed meanwhile."""
    with mesh.client("a").roles("patient", lease_s=3.0) as roles:
        iid = roles.add("t", "patient")
        reader = reader_of(roles)
        reads = reader.read

        def waits(timeout_s: float, limit: int) -> Sequence[Record]:
            mesh.pass_time(timeout_s)
            return reads(timeout_s, limit)

        monkeypatch.setattr(reader, "read", waits)
        assert not roles.step(20.0)
        assert list(roles.held.values()) == [iid]
        with pytest.raises(ValueError, match="a timeout of nan"):  # it never ended
            roles.step(float("nan"))
