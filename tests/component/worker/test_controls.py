"""A catch-up that is under way goes by the controls that are in force by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.core.local_links import local_links
from mesh.core.routes import PUBLISHED_HERE
from mesh.model.frames import MessageClass
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.reasons import Reason
from mesh.node.relinking import NO_CHANGES, scopes_read
from mesh.worker.second_writer.routing_again import catch_up_lane
from tests.component.worker.conftest import SmallMesh


@pytest.mark.parametrize("becomes_local", [True, False])
def test_a_catch_up_of_a_link_follows_what_is_kept_off_it(
    mesh: SmallMesh, becomes_local: bool
) -> None:
    """It was begun before the change. Spec: EMS-11, K20."""
    control = InterestControl("c", ControlKind.LOCAL, "x")
    plain = mesh.world.topology
    kept = replace(plain, interest=(control,))
    before, after = (plain, kept) if becomes_local else (kept, plain)
    lane = next(iter(mesh.world.workers["b"].lanes.owned.values()))
    [link] = [one for one in local_links(before, "b") if one.neighbour == "c"]
    lane.learner.relink(local_links(after, "b"), scopes_read(after, "b"), NO_CHANGES)
    lane.learner.begin_round()
    catch_up = catch_up_lane(lane, lane.progress, link=link)
    route = catch_up.router.route("x", PUBLISHED_HERE, MessageClass.GUARANTEED)
    if becomes_local:
        assert (route.neighbours, route.refused) == ((), (("c", Reason.FILTER),))
    else:
        assert (route.neighbours, route.refused) == (("c",), ())
