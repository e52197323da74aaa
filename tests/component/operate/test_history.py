"""What was wanted at a moment gone by, as far as it is on record."""

from __future__ import annotations

import pytest

from mesh.operate.interest.history import InterestAt, interest_at, interest_now, interest_then
from mesh.transport.port import TopicPartition
from tests.component.in_memory_mesh import Mesh


def past(mesh: Mesh, node: str, at_ms: int | None) -> InterestAt:
    if at_ms is None:
        view = mesh.view()
        view.refresh()
        view.close()
        return interest_now(view.nodes[node])
    kafka = mesh.world.kafka[mesh.topology.nodes[node].kafka]
    return interest_at(mesh.topology, kafka, node, at_ms)


def offered(found: InterestAt) -> dict[str, int | None]:
    """Return the filters offered, addresses apart, and since when."""
    return {one.filter: one.since_ms for one in found.offers if one.filter[0] != "$"}


def test_what_is_wanted_now_says_since_when(mesh: Mesh) -> None:
    began = mesh.now_ms()
    mesh.subscribe("c", "e", "acme/>")
    now = past(mesh, "c", None)
    [there] = now.subscriptions
    assert (there.endpoint, there.filter) == ("e", "acme/>")
    since = offered(now)["acme/>"]
    assert since is not None
    assert began <= there.since_ms <= since <= mesh.now_ms()


def test_a_moment_gone_by_shows_what_has_ended_since(mesh: Mesh) -> None:
    """Spec: kafka.md 1, control.log."""
    before = mesh.now_ms()
    mesh.pause(1.0)
    mesh.subscribe("c", "e", "acme/>")
    mesh.pause(1.0)
    between = mesh.now_ms()
    client = mesh.client("c")
    client.wait(client.unsubscribe("e", "acme/>"))
    client.wait(client.subscribe("e", "other/>"))
    assert offered(past(mesh, "c", before)) == {}
    then = past(mesh, "c", between)
    assert list(offered(then)) == ["acme/>"]
    assert then.subscriptions == ()
    assert list(offered(past(mesh, "c", None))) == ["other/>"]
    assert list(offered(past(mesh, "b", between))) == ["acme/>"]


@pytest.mark.parametrize("is_ended", [False, True])
def test_what_is_older_than_the_copy_is_known_by_its_end_or_its_last_change(
    mesh: Mesh, is_ended: bool
) -> None:
    mesh.subscribe("c", "e", "acme/>")
    mesh.pause(1.0)
    log = TopicPartition("mesh.c.control.log", 0)
    admin = mesh.world.kafka["right"].admin()
    admin.delete_before(admin.ends([log]))
    moment = mesh.now_ms()
    mesh.pause(1.0)
    if is_ended:
        client = mesh.client("c")
        client.wait(client.unsubscribe("e", "acme/>"))
    [entry] = [one for one in past(mesh, "c", moment).offers if one.filter == "acme/>"]
    assert (entry.interest is None, entry.since_ms is None) == (is_ended, is_ended)


def test_a_lease_that_was_renewed_holds_from_its_beginning(mesh: Mesh) -> None:
    """Each renewal is a record more: of a moment between two of them it was wanted, too."""
    mesh.subscribe("c", "e", "acme/>", lease_s=60)
    client = mesh.client("c")
    began = past(mesh, "c", None).subscriptions[0].since_ms
    moments = []
    for _ in range(3):
        mesh.pause(5.0)
        moments.append(mesh.now_ms())
        mesh.pause(5.0)
        client.wait(client.subscribe("e", "acme/>", lease_s=60))
    for moment in (*moments, mesh.now_ms()):
        assert [one.since_ms for one in past(mesh, "c", moment).subscriptions] == [began]


def test_a_subscription_that_was_changed_later_held_as_it_was(mesh: Mesh) -> None:
    """Its later records say nothing of a moment before them, and take nothing away."""
    mesh.subscribe("c", "e", "acme/>")
    mesh.pause(1.0)
    between = mesh.now_ms()
    mesh.pause(1.0)
    client = mesh.client("c")
    client.wait(client.subscribe("e", "acme/>", noexport=True))
    client.wait(client.subscribe("e", "acme/>", noexport=True, lease_s=60))
    for moment, is_local in ((between, False), (mesh.now_ms(), True)):
        [held] = past(mesh, "c", moment).subscriptions
        assert held.subscription.noexport == is_local
        assert held.since_ms <= moment


def test_who_has_looked_on_knows_of_a_lease_what_compaction_took_away(mesh: Mesh) -> None:
    """Of its records the newest alone is left; a view that saw the first tells since when."""
    mesh.subscribe("c", "e", "acme/>", lease_s=60)
    view = mesh.view()
    view.refresh()
    moment = mesh.now_ms()
    compacted = Mesh(mesh.topology)
    compacted.pause(moment / 1000 + 5)
    compacted.subscribe("c", "e", "acme/>", lease_s=60)
    assert past(compacted, "c", moment).subscriptions == ()
    [known] = interest_then(compacted.seen(view), "c", moment).subscriptions
    assert (known.endpoint, known.filter) == ("e", "acme/>")
    assert known.since_ms <= moment
    view.close()
    compacted.close()


def test_a_view_that_looks_on_tells_of_a_lease_since_when_it_is_renewed(mesh: Mesh) -> None:
    """Its last renewal is not since when it is wanted."""
    mesh.subscribe("c", "e", "acme/>", lease_s=60)
    view = mesh.view()
    view.refresh()
    [began] = interest_now(view.nodes["c"]).subscriptions
    mesh.pause(5.0)
    mesh.subscribe("c", "e", "acme/>", lease_s=60)
    view.refresh()
    assert interest_now(view.nodes["c"]).subscriptions == (began,)
    view.close()
