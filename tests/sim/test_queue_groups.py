"""What the groups of a queue attract: their clients, as long as they live, and nobody else.

A queue's topic is one that clients and the mesh read by one group, and who reads there is interest.
"""

from __future__ import annotations

import pytest

from mesh.model.control import Subscription
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from tests.sim.queue_stage import ANY, Stage, Start

GROUPS = {"p": "mesh.p.ep.jobs", "t": "mesh.t.ep.jobs"}


def demanded(stage: Stage, node: str) -> int:
    """Return how many messages a node says that its consumers could take in."""
    machine = stage.mesh.world.workers[node].machine
    assert machine is not None
    return machine.demands.own.get("jobs", 0)


@pytest.mark.parametrize("state", ["dead", "empty", "without offsets"])
def test_a_group_without_members_attracts_nothing_whatever_is_kept_of_it(
    stage_of: Start, state: str
) -> None:
    """Once somebody reads by it again, all that waits elsewhere comes. Spec: K-5, DESIGN 6."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    if state != "dead":
        stage.consume("t")
        stage.until(lambda: demanded(stage, "t") > 0)
        stage.publish("p", 20)
        stage.until_all()
        stage.leave("t")
        stage.until(lambda: demanded(stage, "t") == 0)
        stage.mesh.pause(5)  # now p has heard that, too
    if state == "without offsets":
        del stage.mesh.world.kafka["two"].groups[GROUPS["t"]]
    held, before = stage.held("t"), stage.published
    stage.publish("p", 20)
    for _ in range(30):
        stage.step()
        assert demanded(stage, "t") == 0
    assert stage.held("t") == held
    stage.consume("t")
    stage.until(lambda: len({payload for _, payload in stage.got}) == before + 20)


def test_the_meshs_own_members_of_a_group_attract_nothing(stage_of: Start) -> None:
    """They stay as long as somebody demands, and nothing comes to them. Spec: K-10."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    group = stage.mesh.world.kafka["one"].member_groups
    stage.publish("p", 40)
    stage.consume("t")
    for _ in range(60):
        stage.step()
        assert demanded(stage, "p") == 0
    assert len(stage.got) == 40
    assert group[GROUPS["p"]].names() == ["mover"]
    stage.leave("t")
    stage.publish("t", 10)
    for _ in range(30):
        stage.step()
    assert (stage.held("p"), stage.by_node()) == (40, {"t": 40})


def test_a_copy_that_has_moved_is_no_new_message_for_others(stage_of: Start) -> None:
    """It keeps its subject, and who wants that has had it; nor does it move back. Spec: K-9."""
    stage = stage_of(ANY)
    writer = stage.mesh.world.kafka["two"].writer("subscriber")
    wanted = encode_subscription(Subscription())
    writer.produce("mesh.t.clients", wanted, subscription_key("all", "jobs/>"), 0)
    stage.queue("p", "t")
    stage.publish("p", 40)
    stage.consume("t")
    stage.until_all()
    everything = stage.mesh.world.kafka["two"].topics["mesh.t.ep.all"].logs
    payloads = [one.value() for log in everything for one in log.entries if one is not None]
    assert sorted(payloads) == sorted(b"%d" % number for number in range(40))
    assert (stage.held("p"), stage.held("t")) == (40, 40)
