"""Bugs that were cured: something waited for what would never come, for good.

Each is planted again, and the test that was written with its cure finds it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.core.completion import Completion
from mesh.errors import MeshError
from mesh.model.interest_inputs import input_name
from mesh.node.hearing import Hearing
from mesh.node.leader import Leader
from mesh.node.neighbour import Neighbour
from mesh.node.remembering import Remembering
from mesh.node.unproven_neighbours import UnprovenNeighbours
from mesh.worker.control import leadership
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from mesh.worker.control.own_words import OwnWords
from tests.component.worker import test_lagging_takeover as lagging
from tests.component.worker import test_written_over as written_over
from tests.mutations.patching import Patches
from tests.sim import test_lost_topology as lost_topology
from tests.unit.core import test_completion as completion
from tests.unit.node import test_machine as node_machine
from tests.unit.node import test_remembering as remembering
from tests.unit.node import test_unproven_neighbours as unproven_neighbours


def words_stay_written_over(patches: Patches) -> None:
    patches.put(OwnWords, "overwritten", lambda *_: ())


def a_worker_starts_behind_a_stranger() -> None:
    written_over.test_a_worker_that_starts_learns_who_its_node_is(written_over.IDENTITY, None)


def what_stood_before_garbage_still_stands(patches: Patches) -> None:
    def wrapped(read):
        return lambda records: read([one for one in records if one.value() != b"garbage"])

    patches.wrap(leadership, "read_written", wrapped)
    patches.put(Leader, "note_written", lambda *_: None)  # what it reads itself would tell it too


def garbage_is_written_while_nobody_leads() -> None:
    written_over.test_what_was_written_over_while_nobody_led_is_said_again(b"advert ")


def lanes_wait_for_changes_that_are_gone(patches: Patches) -> None:
    patches.put(AcknowledgedInterest, "_heed_change", lambda *_: iter(()))


def a_change_is_gone() -> None:
    mesh = lost_topology.changed()
    lost_topology.test_nobody_waits_for_a_change_that_is_gone(mesh, ["far"], [b"change"])


def the_newest_acknowledgement_counts(patches: Patches) -> None:
    def wrong(self, reader, scope, ack):
        self.acks[reader, scope] = ack

    patches.put(Completion, "acknowledged", wrong)


def each_proof_begins_the_wait_anew(patches: Patches) -> None:
    def wrapped(overdue):
        def wrong(self, neighbours, now_ms):
            for name, neighbour in neighbours.items():
                if neighbour.is_settled:
                    self._started_ms.pop(name, None)
            return overdue(self, neighbours, now_ms)

        return wrong

    patches.wrap(UnprovenNeighbours, "overdue", wrapped)


def what_a_start_goes_without_is_known(patches: Patches) -> None:
    patches.put(Neighbour, "is_known", Neighbour.is_settled)


def each_worker_recalls_what_its_own_lanes_knew(patches: Patches) -> None:
    def wrong(self, name, learned, versions):
        self.neighbours[name].frozen = True
        for scope, filters in learned.items():
            reader = self._scope(name, scope)
            for filter_, interest in reader.recall(filters, versions[scope]).items():
                self._gather(name, scope, filter_, interest)

    patches.put(Hearing, "start_without", wrong)


def lanes_knew_different_things() -> None:
    lagging.test_a_node_whose_lanes_knew_different_things_serves_without_the_neighbour(1)


def what_is_recalled_is_what_was_read(patches: Patches) -> None:
    def wrapped(recall):
        def wrong(self, name, scope, filters, version):
            recall(self, name, scope, filters, version)
            self.pending.versions.note(input_name(name, scope), version)

        return wrong

    patches.wrap(Hearing, "_recall", wrapped)


def a_mark_comes_before_what_is_recalled() -> None:
    shown = node_machine.test_what_is_recalled_takes_back_nothing_that_was_read_since
    shown(node_machine.serving())


def what_was_read_is_kept_as_if_it_were_proven(patches: Patches) -> None:
    def wrapped(add):
        def wrong(self, neighbours, lanes, round_):
            for neighbour in neighbours.values():
                for reader in neighbour.scopes.values():
                    reader.proven = True
            return add(self, neighbours, lanes, round_)

        return wrong

    patches.wrap(Remembering, "add", wrapped)


CURED = [
    (
        what_was_read_is_kept_as_if_it_were_proven,
        remembering.test_what_is_not_proven_is_kept_as_what_the_lanes_route_by,
    ),
    (each_worker_recalls_what_its_own_lanes_knew, lanes_knew_different_things),
    (what_is_recalled_is_what_was_read, a_mark_comes_before_what_is_recalled),
    (words_stay_written_over, a_worker_starts_behind_a_stranger),
    (what_stood_before_garbage_still_stands, garbage_is_written_while_nobody_leads),
    (lanes_wait_for_changes_that_are_gone, a_change_is_gone),
    (the_newest_acknowledgement_counts, completion.test_an_old_acknowledgement_takes_back_nothing),
    (
        each_proof_begins_the_wait_anew,
        unproven_neighbours.test_strangers_who_write_in_turns_make_nobody_wait_for_good,
    ),
    (
        what_a_start_goes_without_is_known,
        unproven_neighbours.test_who_is_heard_is_known_by_its_proof_alone,
    ),
]


@pytest.mark.parametrize(
    ("plant", "shown"), [pytest.param(*one, id=one[0].__name__) for one in CURED]
)
def test_a_wait_that_was_cured_would_be_found(
    plant: Callable[[Patches], None], shown: Callable[[], None]
) -> None:
    """With the bug the test fails, and without it passes. Spec: K16, K23, K24, K28."""
    shown()
    patches = Patches()
    plant(patches)
    try:
        with pytest.raises((AssertionError, MeshError)):
            shown()
    finally:
        patches.undo()
