"""Links that nodes refuse, as people and programs see them."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from tests.component.cli.conftest import Chain, Run
from tests.component.in_memory_mesh import CHAIN

REASON = (
    "its ends hold different links: b has multi-hop in zone Z, c has one-hop in zone Z; "
    "give both the same zone and kind"
)


def test_a_refused_link_is_shown_with_its_reason(run: Run, chain: Chain) -> None:
    """It is a fault everywhere, and nobody waits for it. Spec: K27, EMS-13."""
    mesh, file = chain
    zones = {"Z": {"kind": "one-hop", "links": [["b", "c"]]}}
    mesh.world.apart["c"] = topology_from_mapping({**CHAIN, "zones": zones})
    mesh.world.kill("c")
    mesh.world.start("c")
    mesh.pause(5.0)
    assert run("subscribe", "acme/>", "-n", "b", "-e", "e", "-f", file).code == 0
    status = run("status", "-f", file, "-o", "json")
    assert (status.code, status.data["ok"]) == (10, False)
    nodes = {one["node"]: one for one in status.data["nodes"]}
    assert nodes["a"]["shut"] == []
    assert nodes["b"]["links"] == {"a": "up", "c": "refused"}
    for node, other in (("b", "c"), ("c", "b")):
        assert nodes[node]["shut"] == [
            {"neighbour": other, "zone": "Z", "state": "refused", "reason": REASON}
        ]
    assert nodes["b"]["known_everywhere"] is True
    assert "refused" in run("status", "-f", file).out
    links = run("links", "-f", file, "-o", "json")
    told = {one["link"]: (one["state"], one["reason"]) for one in links.data["links"]}
    assert links.code == 10
    assert told["a->b"] == told["b->a"] == ("up", "")
    assert told["b->c"] == told["c->b"] == ("refused", REASON)
    doctor = run("doctor", "-f", file, "-o", "json")
    assert doctor.code != 0
    assert REASON in doctor.out
    assert "the link comes up by itself" in doctor.out
    assert "has not applied" not in doctor.out
