"""What was wanted at a moment gone by, as far as it is on record."""

from __future__ import annotations

import pytest

from mesh.operate.history import InterestAt, interest_at, interest_now
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
