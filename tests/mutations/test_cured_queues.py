"""Bugs of queues that move and of readers: planted again, a test must find each.

Spec: DESIGN 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from mesh.client.awaited import AwaitedTopic
from mesh.client.channels import ChannelReader
from mesh.client.consuming import QueueConsumer
from mesh.config.topology_file import topology_from_mapping
from mesh.core.redelivery import Share
from mesh.transport.groups import Takings
from mesh.worker.queue_moves import moving
from mesh.worker.queue_moves.movers import Movers
from mesh.worker.queue_moves.moving import Moving
from mesh.worker.second_writer.repair import Repair
from tests.component.client import test_consuming as consuming
from tests.component.client import test_left_behind as left_behind
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.sim import queue_stage
from tests.sim import test_queue_losses as queue_losses
from tests.sim import test_queue_movers as queue_movers

CURED = Cured()


def _stage_of(spec: Mapping[str, object]) -> queue_stage.Stage:
    mesh = Mesh(topology_from_mapping({**queue_stage.CHAIN, **spec}))
    return queue_stage.Stage(mesh)


def a_queue_is_recreated_under_its_mover() -> None:
    queue_losses.test_what_comes_to_a_queue_recreated_moves(_stage_of, 0.0)


@CURED.found_by(a_queue_is_recreated_under_its_mover)
def movers_ask_nobody_whose_messages_are(patches: Patches) -> None:
    patches.put(Movers, "_prove", lambda *_: True)


def what_waits_in_a_queue_while_sources_hold() -> None:
    queue_movers.test_nothing_moves_while_sources_hold(_stage_of)


@CURED.found_by(what_waits_in_a_queue_while_sources_hold)
def movers_go_on(patches: Patches) -> None:
    def wrapper(move):
        def wrong(movers, *args, **more):
            gate = movers.lanes.sources.gate
            held, gate.holding = gate.holding, False
            try:
                move(movers, *args, **more)
            finally:
                gate.holding = held

        return wrong

    patches.wrap(Movers, "_move", wrapper)


@CURED.found_by(a_queue_is_recreated_under_its_mover)
def a_log_never_begins_anew(patches: Patches) -> None:
    patches.put(Takings, "follow", lambda _self, records: records)


def a_queue_loses_its_end_before_its_next_mover() -> None:
    queue_losses.test_what_comes_where_a_queue_lost_its_end_moves(_stage_of, 12.0, 2)


@CURED.found_by(a_queue_loses_its_end_before_its_next_mover)
def what_groups_passed_stays_passed(patches: Patches) -> None:
    patches.put(Share, "meet", lambda *_: False)


@CURED.found_by(a_queue_loses_its_end_before_its_next_mover)
def chains_of_movers_begin_nothing_anew(patches: Patches) -> None:
    patches.put(moving, "position_in_chain", lambda _, offset: offset)


def more_waits_in_a_queue_than_one_demand() -> None:
    queue_movers.test_more_than_one_demand_moves(_stage_of, queue_stage.ANY)


@CURED.found_by(more_waits_in_a_queue_than_one_demand)
def markers_are_awaited(patches: Patches) -> None:
    def wrapper(mark):
        return lambda self, topic, at, offset, fault: mark(self, topic, at, offset + 1, fault)

    patches.wrap(Moving, "note_written", wrapper)


def what_a_former_owner_moved_vanishes() -> None:
    queue_losses.test_what_a_former_owner_moved_is_announced_if_it_vanished(_stage_of)


@CURED.found_by(what_a_former_owner_moved_vanishes)
def what_vanished_of_movers_is_not_announced(patches: Patches) -> None:
    patches.put(Repair, "_gone", lambda _: None)


def a_queue_is_recreated_and_outgrows_its_consumer() -> None:
    mesh = Mesh(topology_from_mapping(CHAIN))
    client = mesh.client("a")
    client.wait(client.subscribe("orders", "acme/>"))
    shown = consuming.test_a_queue_recreated_that_has_outgrown_its_consumer_is_handed_out_whole
    shown(mesh, client)


@CURED.found_by(a_queue_is_recreated_and_outgrows_its_consumer)
def a_topic_is_the_one_of_its_name(patches: Patches) -> None:
    patches.put(AwaitedTopic, "notice_another", lambda *_, **__: False)


def a_reader_is_left_behind(kind: str, told: Callable[..., None]) -> Callable[[], None]:
    def shown() -> None:
        mesh = Mesh(topology_from_mapping(CHAIN))
        client = mesh.client("a")
        client.wait(client.subscribe("orders", "acme/>"))
        told(kind, client, mesh)

    return shown


LEFT_BEHIND = [
    a_reader_is_left_behind(kind, told)
    for kind in ("channel", "queue")
    for told in (
        left_behind.test_who_comes_back_too_late_is_told_what_was_deleted,
        left_behind.test_who_reads_too_slowly_is_told_what_was_deleted,
    )
]


@CURED.found_by(*LEFT_BEHIND)
def what_was_deleted_unread_is_not_told(patches: Patches) -> None:
    def wrapper(fetch):
        def wrong(self, *args):
            fetch(self, *args)
            self.skipped.clear()

        return wrong

    for reader in (ChannelReader, QueueConsumer):
        patches.wrap(reader, "_fetch", wrapper)


@pytest.mark.parametrize(("plant", "shown"), CURED.cases)
def test_a_bug_of_queues_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug the test fails, and without it passes. Spec: DESIGN 6."""
    assert_found(plant, shown)
