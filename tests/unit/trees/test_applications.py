"""Applications of one node: leases, requests, what is taken out of `roles`, and who is told what."""

from __future__ import annotations

from collections import Counter

import pytest

from mesh.model.tree_apps import (
    Answered,
    AnswerGiven,
    Delivered,
    Expired,
    LeaseSaid,
    Refused,
    RoleKey,
    RoleLost,
    RoleRequest,
    RoleSaid,
    RoleTaken,
    RoutesAsked,
    RoutesTold,
    SendWanted,
    Served,
)
from mesh.model.tree_frames import ReplyKind
from mesh.model.tree_nodes import MESH_APP
from mesh.model.trees import Address, Extent, InstanceId, tree_id
from mesh.trees.applications.effects import DropLease, Effect, Tell, WriteRole
from mesh.trees.applications.inputs import RolesCaughtUp, RolesRead
from mesh.trees.applications.known_routes import ROUTES_MAX
from mesh.trees.applications.machine import Applications
from mesh.trees.applications.polite import SETTLE_MS
from mesh.trees.applications.probes import TRIES_MAX
from mesh.trees.inputs import Input, RolesRemoved, Ticked
from mesh.trees.machine import TreeNode
from mesh.trees.outputs import Output
from mesh.trees.publishing import AHEAD_MAX
from mesh.trees.settings import Settings
from mesh.wire.tree_events import encode_event

PLACE = Address(tree_id("desk"), "pricing")
KEY = RoleKey("app", "desk", "pricing")
REQUEST = RoleRequest(PLACE)


def served(*, caught_up: bool = True) -> Applications:
    apps = Applications(TreeNode("a", "uuid", 3, 77, "", Settings()), "uuid", 3)
    if caught_up:
        apps.step(RolesCaughtUp(), 0)
    return apps


def told(effects: list[Effect], app: str = "app") -> list[object]:
    return [one.told for one in effects if isinstance(one, Tell) and one.app == app]


def kinds(effects: list[Effect], app: str = "app") -> list[type]:
    return [type(one) for one in told(effects, app)]


def test_whoever_says_anything_is_served_and_told_so() -> None:
    apps = served()
    effects = apps.step(RolesRead([LeaseSaid("app", 5_000, "word")]), 10)
    assert told(effects) == [Served("app", "uuid", 3), Served("app", "uuid", 3, "word")]
    assert not told(apps.step(RolesRead([LeaseSaid("app", 5_000)]), 20))


def test_a_lease_that_ends_takes_roles_along_and_out_of_the_topic() -> None:
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000), RoleSaid(KEY, REQUEST)]), 0)
    assert not apps.step(Ticked(), 4_999)
    effects = apps.step(Ticked(), 5_000)
    assert [one for one in effects if isinstance(one, WriteRole | DropLease)] == [
        WriteRole(KEY, None),
        DropLease("app"),
    ]
    assert told(effects) == [Expired("app")]
    assert not apps.names


@pytest.mark.parametrize("is_at_once", [True, False])
def test_the_last_of_several_requests_is_in_force_however_they_are_read(is_at_once: bool) -> None:
    apps = served()
    alone = RoleRequest(PLACE, is_exclusive=True)
    requests = [RoleSaid(KEY, REQUEST), RoleSaid(KEY, alone)]
    said: list[RoleSaid | LeaseSaid] = [LeaseSaid("app", 5_000), *requests]
    effects: list[Effect] = []
    for batch in [said] if is_at_once else [[one] for one in said]:
        effects += apps.step(RolesRead(batch), 0)
    heard = [one for one in told(effects) if not isinstance(one, Served)]
    assert [type(one) for one in heard] == [RoleTaken, RoleTaken]
    assert [one.is_exclusive for one in heard if isinstance(one, RoleTaken)] == [False, True]


@pytest.mark.parametrize("clock", [1 << 31, (1 << 31) - 1, AHEAD_MAX + 1])
def test_an_instance_of_a_time_to_come_is_refused(clock: int) -> None:
    """All clocks would follow it, and neighbours refuse frames with clocks beyond their end."""
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000)]), 0)
    request = RoleRequest(PLACE, iid=InstanceId(clock << 96))
    effects = apps.step(RolesRead([RoleSaid(KEY, request)]), 0)
    assert [one.code for one in told(effects) if isinstance(one, Refused)] == ["BAD_INSTANCE"]
    assert WriteRole(KEY, None) in effects
    near = RoleRequest(PLACE, iid=InstanceId(7 << 96))
    taken = told(apps.step(RolesRead([RoleSaid(KEY, near)]), 0))
    assert [one.iid for one in taken if isinstance(one, RoleTaken)] == [near.iid]


def test_two_applications_have_no_instance_in_common() -> None:
    """The second would have taken the place of the first, and nobody would have been told."""
    apps = served()
    request = RoleRequest(PLACE, iid=InstanceId(7))
    other = RoleKey("other", "desk", "pricing")
    effects = apps.step(RolesRead([RoleSaid(KEY, request), RoleSaid(other, request)]), 0)
    assert RoleTaken in kinds(effects)
    assert [one.code for one in told(effects, "other") if isinstance(one, Refused)] == [
        "BAD_INSTANCE"
    ]
    assert kinds(apps.step(SendWanted("app", "c", PLACE), 10)) == [Delivered]


def test_nothing_is_left_of_applications_that_are_gone() -> None:
    apps = served()
    for number in range(50):
        name = f"app-{number}"
        apps.step(RolesRead([LeaseSaid(name, 5_000), RoleSaid(KEY._replace(app=name), REQUEST)]), 0)
    apps.step(Ticked(), 5_000)
    gone = [RoleSaid(KEY._replace(app=f"app-{number}"), None, by=3) for number in range(50)]
    assert not apps.step(RolesRead(gone), 5_001), "its own word is no news"
    assert not apps._apps


def test_every_record_renews_the_lease() -> None:
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000)]), 0)
    apps.step(SendWanted("app", "c", PLACE), 4_000)
    assert apps.step(Ticked(), 8_000) == []
    assert list(apps.names) == ["app"]


def test_what_was_long_gone_when_the_node_began_was_never_there() -> None:
    """A request, its end and another application's: only the last is taken."""
    apps = served(caught_up=False)
    other = RoleKey("other", "desk", "pricing")
    said = [RoleSaid(KEY, REQUEST), RoleSaid(KEY, None), RoleSaid(other, REQUEST)]
    assert apps.step(RolesRead(said), 0) == []
    effects = apps.step(RolesCaughtUp(), 0)
    assert kinds(effects) == [Served]
    assert kinds(effects, "other") == [Served, RoleTaken]


def test_no_lease_ends_while_nobody_could_be_served() -> None:
    """What was said since is read behind what it took so long to read. Spec: tree_layer 13."""
    apps = served(caught_up=False)
    apps.step(RolesRead([LeaseSaid("app", 5_000), RoleSaid(KEY, REQUEST)]), 0)
    apps.step(RolesCaughtUp(), 20_000)
    assert not apps.step(Ticked(), 20_100)
    effects = apps.step(Ticked(), 25_000)
    assert told(effects) == [Expired("app")]


def test_sends_that_come_before_requests_are_known_wait() -> None:
    apps = served(caught_up=False)
    apps.step(RolesRead([RoleSaid(KEY, REQUEST)]), 0)
    assert apps.step(SendWanted("app", "c", PLACE, b"x"), 0) == []
    assert kinds(apps.step(RolesCaughtUp(), 0)) == [Served, RoleTaken, Delivered]


def test_a_request_said_twice_is_one_and_one_with_other_words_is_another() -> None:
    apps = served()
    first = told(apps.step(RolesRead([RoleSaid(KEY, REQUEST)]), 0))
    assert told(apps.step(RolesRead([RoleSaid(KEY, REQUEST)]), 10)) == first[1:]
    changed = RoleSaid(KEY, RoleRequest(PLACE, is_exclusive=True))
    assert kinds(apps.step(RolesRead([changed]), 20)) == [RoleTaken]


def test_one_role_under_two_names_of_its_tree_is_refused() -> None:
    apps = served()
    twin = RoleKey("app", PLACE.tree, "pricing")
    effects = apps.step(RolesRead([RoleSaid(KEY, REQUEST), RoleSaid(twin, REQUEST)]), 0)
    assert kinds(effects) == [Served, Refused, RoleTaken]
    assert WriteRole(twin, None) in effects
    assert not told(apps.step(RolesRead([RoleSaid(twin, None, by=3)]), 10))


def test_what_a_higher_holder_took_is_out_of_the_topic_at_once() -> None:
    """So no restart brings it back. Spec: tree_layer 13."""
    apps = served()
    lead = RoleRequest(PLACE, is_exclusive=True)
    apps.step(RolesRead([RoleSaid(KEY, lead)]), 0)
    other = RoleKey("other", "desk", "pricing")
    effects = apps.step(RolesRead([RoleSaid(other, lead)]), 10)
    assert kinds(effects) == [RoleLost]
    assert WriteRole(KEY, None) in effects
    assert not told(apps.step(RolesRead([RoleSaid(KEY, None, by=3)]), 20))


def test_a_request_that_crosses_its_own_end_is_written_anew() -> None:
    """The node takes it out while the application writes it again; compaction would keep the end."""
    apps = served()
    lead = RoleRequest(PLACE, is_exclusive=True)
    other = RoleKey("other", "desk", "pricing")
    apps.step(RolesRead([RoleSaid(KEY, lead), RoleSaid(other, lead)]), 0)
    again = apps.step(RolesRead([RoleSaid(KEY, lead), RoleSaid(KEY, None, by=3)]), 10)
    assert RoleTaken in kinds(again)
    assert WriteRole(KEY, lead) in again


def test_an_exclusive_request_that_a_restart_finds_is_asked_for_before_it_is_taken() -> None:
    apps = served(caught_up=False)
    apps.step(RolesRead([RoleSaid(KEY, RoleRequest(PLACE, is_exclusive=True))]), 0)
    assert kinds(apps.step(RolesCaughtUp(), 0)) == [Served, RoleTaken]


def test_a_role_taken_politely_is_told_of_after_a_while() -> None:
    apps = served()
    polite = RoleRequest(PLACE, is_exclusive=True, is_polite=True)
    assert kinds(apps.step(RolesRead([RoleSaid(KEY, polite)]), 0)) == [Served]
    assert not told(apps.step(Ticked(), SETTLE_MS - 1))
    assert kinds(apps.step(Ticked(), SETTLE_MS)) == [RoleTaken]


def test_of_two_who_take_a_role_politely_at_once_one_is_refused() -> None:
    apps = served()
    polite = RoleRequest(PLACE, is_exclusive=True, is_polite=True)
    other = RoleKey("other", "desk", "pricing")
    effects = apps.step(RolesRead([RoleSaid(KEY, polite), RoleSaid(other, polite)]), 0)
    effects += apps.step(Ticked(), SETTLE_MS)
    ends = [kinds(effects, app)[-1] for app in ("app", "other")]
    assert sorted(one.__name__ for one in ends) == ["Refused", "RoleTaken"]


@pytest.mark.parametrize("after_ms", [1, SETTLE_MS - 1])
def test_who_asks_politely_a_moment_later_takes_nothing_from_who_was_first(after_ms: int) -> None:
    """Of several who asked again and again each took it from the one before, and nobody had it.

    Or somebody was told that it has it, and lost it in the same moment.
    """
    apps = served()
    polite = RoleRequest(PLACE, is_exclusive=True, is_polite=True)
    other = RoleKey("other", "desk", "pricing")
    apps.step(RolesRead([RoleSaid(KEY, polite)]), 0)
    effects = apps.step(RolesRead([RoleSaid(other, polite)]), after_ms)
    assert [one.code for one in told(effects, "other") if isinstance(one, Refused)] == [
        "EXCLUSIVE_HELD"
    ]
    assert kinds(apps.step(Ticked(), SETTLE_MS)) == [RoleTaken]


@pytest.mark.parametrize(
    ("last", "is_polite", "told_of"),
    [
        (ReplyKind.DATA, True, "EXCLUSIVE_HELD"),
        (ReplyKind.DATA, False, "EXCLUSIVE_HELD"),
        (ReplyKind.NOT_FOUND, True, ""),
        (ReplyKind.NULL, True, "HOLDER_UNKNOWN"),
        (ReplyKind.NULL, False, ""),
    ],
)
def test_who_may_have_got_the_question_and_cannot_answer_may_hold_the_role(
    last: ReplyKind, is_polite: bool, told_of: str
) -> None:
    """A null was taken for nobody: a cut on the way to its holder was enough to lose a role.

    What a restart finds is taken in the end: nobody asked for it politely. Spec: tree_layer 5.4.
    """
    apps = served(caught_up=False)
    asked: list[str] = []
    step = apps.node.step

    def lose(input_: Input, now_ms: int) -> list[Output]:
        if isinstance(input_, SendWanted):
            asked.append(input_.call)
            return []
        return step(input_, now_ms)

    apps.node.step = lose  # type: ignore[method-assign]
    request = RoleRequest(PLACE, is_exclusive=True, is_polite=is_polite)
    apps.step(RolesRead([RoleSaid(KEY, request)]), 0)
    apps.step(RolesCaughtUp(), 0)
    for kind in [*[ReplyKind.NULL] * TRIES_MAX, last]:
        assert not apps.node.size.roles
        effects = list(apps._pass_on(Answered("", asked[-1], kind, True)))
    assert len(asked) == TRIES_MAX + 1
    assert [one.code for one in told(effects) if isinstance(one, Refused)] == [told_of] * bool(
        told_of
    )
    assert apps.node.size.roles == (not told_of)
    assert len(apps._polite._probes) == 0


def test_a_polite_request_that_is_refused_leaves_nothing_behind() -> None:
    apps = served()
    polite = RoleRequest(PLACE, is_exclusive=True, extent=Extent.REALM, is_polite=True)
    refused = told(apps.step(RolesRead([RoleSaid(KEY, polite)]), 0))
    assert [one.code for one in refused if isinstance(one, Refused)] == ["NO_REALM"]
    assert kinds(apps.step(RolesRead([RoleSaid(KEY, REQUEST)]), 10)) == [RoleTaken]


def test_there_are_not_more_applications_than_a_node_can_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each costs a topic: names that are made up must not make them without end."""
    monkeypatch.setattr("mesh.trees.applications.machine.APPS_MAX", 3)
    apps = served()
    for number in range(10):
        apps.step(SendWanted(f"app-{number}", "c", PLACE), 0)
        apps.step(RolesRead([LeaseSaid(f"more-{number}", 5_000)]), 0)
    assert len(apps.names) == 3
    assert apps.refused["TOO_MANY_APPLICATIONS"] == 17
    assert apps.step(SendWanted(next(iter(apps.names)), "d", PLACE), 1)


def test_the_nodes_own_word_is_taken_back_also_where_nobody_else_can_be_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the next goodbye of an application that lives again would be taken for that word."""
    monkeypatch.setattr("mesh.trees.applications.machine.APPS_MAX", 1)
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000)]), 0)
    assert DropLease("app") in apps.step(Ticked(), 10_000)
    apps.step(RolesRead([LeaseSaid("other", 5_000), LeaseSaid("app", None, by=3)]), 10_001)
    assert apps.names == {"other"}
    assert apps.refused["TOO_MANY_APPLICATIONS"] == 0
    apps.step(RolesRead([LeaseSaid("other", None), LeaseSaid("app", 5_000)]), 10_002)
    apps.step(RolesRead([LeaseSaid("app", None)]), 10_003)
    assert apps.names == set()


def test_many_roles_and_applications_cost_each_as_much_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand of one application stopped the worker for minutes, and all that it carries."""
    looked = Counter[str]()
    for kind in (RoleKey, Address):

        class Counted(kind):  # type: ignore[misc, valid-type]
            def __eq__(self, other: object) -> bool:
                looked["compared"] += 1
                return tuple(self) == other

            __hash__ = kind.__hash__

        monkeypatch.setitem(globals(), kind.__name__, Counted)
    apps, many = served(), 400
    for number in range(many):
        key = RoleKey("app", f"desk-{number}", "pricing")
        request = RoleRequest(Address(tree_id(key.tree), key.role))
        apps.step(RolesRead([RoleSaid(key, request)]), 0)
    for number in range(many):
        apps.step(RolesRead([RoleSaid(RoleKey("app", f"desk-{number}", "pricing"), None)]), 0)
    assert looked["compared"] < 20 * many
    assert not apps.node.size.roles


def test_what_an_application_gives_up_in_a_row_goes_in_one_frame() -> None:
    """As what it takes does. Spec: tree_layer 5.5 (46)."""
    apps = served()
    keys = [RoleKey("app", f"desk-{number}", "pricing") for number in range(50)]
    requests = [RoleRequest(Address(tree_id(key.tree), key.role)) for key in keys]
    said: list[RoleSaid | LeaseSaid] = [
        RoleSaid(key, request) for key, request in zip(keys, requests, strict=True)
    ]
    apps.step(RolesRead([LeaseSaid("app", 60_000), *said]), 0)
    removed: list[RolesRemoved] = []
    step = apps.node.step

    def note(input_: Input, now_ms: int) -> list[Output]:
        removed.extend([input_] if isinstance(input_, RolesRemoved) else [])
        return step(input_, now_ms)

    apps.node.step = note  # type: ignore[method-assign]
    gone = [RoleSaid(key, None) for key in keys]
    apps.step(RolesRead([*gone[:30], gone[3], said[0], *gone[30:]]), 1)
    assert [len(one.addresses) for one in removed] == [30, 20]
    assert apps.node.size.roles == 1, "the one that was asked for again in between"


def test_who_dies_is_found_without_looking_at_everybody() -> None:
    """All leases of ten thousand applications may end in one moment."""

    class Hosted(dict):  # type: ignore[type-arg]
        def values(self):  # type: ignore[no-untyped-def]
            raise AssertionError("everybody was looked at")

    apps = served()
    for number in range(3):
        apps.step(RolesRead([RoleSaid(KEY._replace(app=f"app-{number}"), REQUEST)]), number)
        apps.step(SendWanted(f"app-{number}", "c", PLACE), number)
    inside = apps.node._node
    inside.hosts.by_tree = Hosted(inside.hosts.by_tree)
    inside.sessions.open = Hosted(inside.sessions.open)
    apps.step(Ticked(), 20_000)
    assert not apps.names
    assert not inside.sessions.open
    assert not inside.sessions.concern
    assert list(inside.hosts.by_app) == [MESH_APP]
    assert list(inside.hosts.ports) == [MESH_APP]


def test_another_life_of_an_application_may_call_its_messages_as_the_last_one_did() -> None:
    """Who types lines with `kcat` calls each of them "1"."""
    apps = served()
    host = RoleKey("host", "desk", "pricing")
    apps.step(RolesRead([LeaseSaid("host", 60_000), RoleSaid(host, REQUEST)]), 0)
    [first] = told(apps.step(SendWanted("app", "1", PLACE), 0), "host")
    assert Expired("app") in told(apps.step(Ticked(), 11_000))
    effects = apps.step(SendWanted("app", "1", PLACE), 12_000)
    [second] = told(effects, "host")
    assert not [one for one in told(effects) if isinstance(one, Refused)]
    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    late = apps.step(AnswerGiven("host", first.mid, b"late"), 12_010)
    assert kinds(late, "host") == [Refused]
    assert not told(late)
    assert kinds(apps.step(AnswerGiven("host", second.mid, b"x"), 12_020)) == [Answered]


def test_a_life_that_began_just_now_does_not_end_by_the_end_of_the_last_one() -> None:
    """The node wrote that end itself; the application sent something before it was read."""
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000)]), 0)
    assert DropLease("app") in apps.step(Ticked(), 5_000)
    apps.step(SendWanted("app", "c", PLACE), 5_001)
    apps.step(RolesRead([LeaseSaid("app", None, by=3)]), 5_010)
    assert list(apps.names) == ["app"]
    apps.step(RolesRead([LeaseSaid("app", None)]), 5_020)
    assert not apps.names


def test_what_a_former_leader_writes_once_more_ends_nothing() -> None:
    """It stood still, or was cut off; a later one knows better than this one."""
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000), RoleSaid(KEY, REQUEST)]), 0)
    late = [RoleSaid(KEY, None, by=2), LeaseSaid("app", None, by=2)]
    assert apps.step(RolesRead(late), 10) == [WriteRole(KEY, REQUEST)]
    assert apps.step(RolesRead([RoleSaid(KEY, None, by=4)]), 20) == []
    assert list(apps.names) == ["app"]
    assert apps.node.size.roles == 1


def test_a_life_that_begins_as_the_last_one_ends_keeps_what_it_takes() -> None:
    """Its own first word was taken for the node's, and the node's then ended it."""
    apps = served()
    apps.step(RolesRead([LeaseSaid("app", 5_000)]), 0)
    assert DropLease("app") in apps.step(Ticked(), 5_000)
    said = [LeaseSaid("app", None), LeaseSaid("app", 5_000), RoleSaid(KEY, REQUEST)]
    apps.step(RolesRead([*said, LeaseSaid("app", None, by=3)]), 5_010)
    assert list(apps.names) == ["app"]
    assert apps.node.size.roles == 1


def test_the_end_of_a_request_counts_though_the_node_never_read_its_own() -> None:
    """Kafka did not take it, or the topic was recreated: the next end was taken for it."""
    apps = served()
    lead = RoleRequest(PLACE, is_exclusive=True)
    other = RoleKey("other", "desk", "pricing")
    lost = apps.step(RolesRead([RoleSaid(KEY, lead), RoleSaid(other, lead)]), 0)
    assert WriteRole(KEY, None) in lost
    apps.step(RolesRead([RoleSaid(other, None), RoleSaid(KEY, lead)]), 10)
    assert apps.node.size.roles == 1
    apps.step(RolesRead([RoleSaid(KEY, None)]), 20)
    assert apps.node.size.roles == 0


def test_what_is_said_before_requests_are_known_does_not_grow_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node whose `roles` cannot be read may wait for long."""
    monkeypatch.setattr("mesh.trees.applications.early_words.BYTES_MAX", 10_000)
    apps = served(caught_up=False)
    for number in range(50):
        apps.step(SendWanted("app", str(number), PLACE, bytes(1_000)), 0)
    assert len(apps._early) == 5
    assert apps.refused["TOO_EARLY"] == 45
    effects = apps.step(RolesCaughtUp(), 10)
    assert len([one for one in told(effects) if isinstance(one, Answered)]) == 5
    assert not apps._early


def test_what_is_known_of_many_routes_is_told_in_records_that_fit() -> None:
    """Of ten thousand instances one record would have been too large: who asked heard nothing."""
    apps = served()
    many = 2 * ROUTES_MAX + 1
    keys = [RoleKey(f"app-{number}", "desk", "pricing") for number in range(many)]
    apps.step(RolesRead([RoleSaid(key, REQUEST) for key in keys]), 0)
    parts = told(apps.step(RoutesAsked("app-0", "c", PLACE), 1), "app-0")
    assert all(isinstance(one, RoutesTold) for one in parts)
    sizes = [(len(one.routes), one.has_more) for one in parts if isinstance(one, RoutesTold)]
    assert sizes == [(ROUTES_MAX, True), (ROUTES_MAX, True), (1, False)]
    assert all(len(encode_event(one, 1)) < 100_000 for one in parts)  # type: ignore[arg-type]
    [nothing] = told(apps.step(RoutesAsked("app-0", "c", PLACE._replace(role="x")), 1), "app-0")
    assert isinstance(nothing, RoutesTold)
    assert not nothing.has_more


def test_protocols_of_an_application_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stays open for as long as it lives: made-up ones would fill the memory."""
    monkeypatch.setattr("mesh.trees.applications.machine.PORTS_MAX", 3)
    apps = served()
    heard = [
        one
        for number in range(10)
        for one in told(
            apps.step(RolesRead([RoleSaid(KEY, RoleRequest(PLACE, protocol=f"v{number}"))]), number)
        )
    ]
    assert [type(one) for one in heard].count(RoleTaken) == 2  # and "" is open from the start
    assert {one.code for one in heard if isinstance(one, Refused)} == {"TOO_MANY_PROTOCOLS"}
    assert len(apps.node._node.hosts.ports["app"]) == 3
    assert kinds(apps.step(RolesRead([RoleSaid(KEY, REQUEST)]), 20)) == [RoleTaken]
