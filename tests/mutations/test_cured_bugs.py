"""Bugs that were cured and that the swarm does not draw: planted again, a test must find each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from mesh.client.awaited import AwaitedTopic
from mesh.client.channels import ChannelReader
from mesh.client.consuming import QueueConsumer
from mesh.config.topology_file import topology_from_mapping
from mesh.core import completion
from mesh.core.holds import Holds
from mesh.core.redelivery import Share
from mesh.errors import MeshError
from mesh.lane import relinking
from mesh.lane.messages import ingress, transit
from mesh.lane.progress import Progress
from mesh.model import control
from mesh.model.control import Stage
from mesh.model.facts import ENDED
from mesh.model.interest_inputs import input_name
from mesh.model.topics import TopicNames
from mesh.node import machine, subscriptions
from mesh.node.control_repair import ControlRepair
from mesh.node.demands import Demands
from mesh.node.hearing import Hearing
from mesh.node.leader import Leader
from mesh.node.neighbour import Neighbour
from mesh.node.queues import OwnQueues
from mesh.node.unproven_neighbours import UnprovenNeighbours
from mesh.operate.changes import driver, founding
from mesh.transport import node_topics
from mesh.transport.groups import Takings
from mesh.transport.kafka import retries
from mesh.transport.memory_faults import Call, Outcome
from mesh.wire.control import decode_pause
from mesh.wire.keys import MarkKey, PauseKey, parse_control_key, pause_key
from mesh.wire.operator_records import RecordsOfOperators
from mesh.worker.control import control_writer, feeds, leadership
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from mesh.worker.control.feeds import Feeds
from mesh.worker.control.listener import Listener
from mesh.worker.lanes import sources
from mesh.worker.lanes.first_records import FirstRecords
from mesh.worker.lanes.truncated_logs import LastRead
from mesh.worker.limits.backlog import Backlog
from mesh.worker.queue_moves import moving
from mesh.worker.queue_moves.movers import Movers
from mesh.worker.queue_moves.moving import Moving
from mesh.worker.second_writer.displacing import Displacing
from mesh.worker.second_writer.held_target import TargetCatchUp
from mesh.worker.second_writer.repair import Repair
from mesh.worker.topics import own_topics, provision, readership
from mesh.worker.topics.readership import Readership
from mesh.worker.topics.targets import Targets
from mesh.worker.topics.writable import Looked
from tests.component.client import test_consuming as consuming
from tests.component.client import test_left_behind as left_behind
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.operate import test_in_force as in_force
from tests.component.transport import test_dirty_commits as dirty_commits
from tests.component.worker import test_bad_records as bad_records
from tests.component.worker import test_endpoint_limits as endpoint_limits
from tests.component.worker import test_eras as eras
from tests.component.worker import test_first_records as first
from tests.component.worker import test_lagging_takeover as lagging
from tests.component.worker import test_late_words as late_words
from tests.component.worker import test_limits_of_recreated as limits_of_recreated
from tests.component.worker import test_other_partitions as other_partitions
from tests.component.worker import test_recreated_control as recreated_control
from tests.component.worker import test_refused_topics as refused_topics
from tests.component.worker import test_retention as retention
from tests.component.worker import test_told_in_part as in_part
from tests.component.worker import test_truncated_logs as truncated_logs
from tests.component.worker import test_unheard_catch_ups as unheard
from tests.component.worker import test_unproven_start as unproven_start
from tests.component.worker import test_unwritable as unwritable
from tests.component.worker.conftest import SmallMesh
from tests.mutations.hunt import MUTATIONS, UNSHOWN
from tests.mutations.patching import Mutation, Patches
from tests.sim import test_late_abort as late_abort
from tests.sim import test_other_files as other_files
from tests.sim import test_queue_dead_members as dead_members
from tests.sim import test_queue_movers as queue_movers
from tests.sim import test_recovered_lane as recovered
from tests.unit.core import test_completion as completed
from tests.unit.node import test_machine as node_machine
from tests.unit.node import test_queues as own_queues
from tests.unit.node import test_subscriptions as own_subscriptions
from tests.unit.transport import test_node_topics as settings


def demands_never_end(patches: Patches) -> None:
    patches.put(Demands, "expire", lambda *_: None)


def old_marks_prove(patches: Patches) -> None:
    def wrapper(begin_again):
        def wrong(self, **said):
            begin_again(self, **said)
            self.is_read_again = False

        return wrong

    patches.wrap(Neighbour, "begin_again", wrapper)


def epochs_begin_again(patches: Patches) -> None:
    patches.put(leadership, "read_tail", lambda *_: ())


def gone_subscriptions_are_awaited(patches: Patches) -> None:
    patches.put(AcknowledgedInterest, "_heed_clients", lambda *_: iter(()))


def other_partitions_are_not_read(patches: Patches) -> None:
    patches.put(Listener, "_look_elsewhere", lambda *_: None)


def what_a_new_node_was_made_with_is_not_looked_at(patches: Patches) -> None:
    patches.put(driver, "made_otherwise", lambda *_: ())


def displacing_goes_by_names(patches: Patches) -> None:
    def wrapper(take):
        def wrong(self, of, opened):
            take(self, replace(of, topic_id=b""), opened)

        return wrong

    patches.wrap(Displacing, "_take_opened", wrapper)


def counts_go_by_names(patches: Patches) -> None:
    patches.put(Backlog, "is_of", lambda *_: None)


def what_was_counted_before_waits(patches: Patches) -> None:
    patches.put(Backlog, "_begin_again", lambda self, _: self._samples.clear())


def what_was_passed_stays_passed(patches: Patches) -> None:
    patches.put(readership, "_agree", lambda *_: None)


def repeated_requests_are_not_counted(patches: Patches) -> None:
    patches.put(retries, "_COUNTED", re.compile("(?!)"))


def an_abort_is_newer_than_a_switch(patches: Patches) -> None:
    order = [Stage.HOLD, Stage.SWITCH, Stage.ABORT, Stage.RUN]
    for module in (control, machine):
        patches.put(module, "change_version", lambda number, stage: (number, order.index(stage)))


def others_are_written_over(patches: Patches) -> None:
    patches.put(founding, "_refuse_others", lambda *_: None)


def starters_claim_nothing(patches: Patches) -> None:
    own = (f"mesh.config.change.{number}" for number in itertools.count())
    patches.put(TopicNames, "change_transactions", lambda _: next(own))


def groups_that_fell_silent_are_forgotten(patches: Patches) -> None:
    def wrapper(passed):
        def wrong(self, admin, topics):
            self._known.clear()
            return passed(self, admin, topics)

        return wrong

    patches.wrap(Readership, "passed", wrapper)


def nobody_looks_before_he_leads(patches: Patches) -> None:
    patches.put(Targets, "unwritable_control", property(lambda _: frozenset()))
    patches.put(leadership, "look", lambda *_: Looked())


def a_held_id_has_no_spare(patches: Patches) -> None:
    def wrong(home, names, node):
        return home.writer("control", names.control_transactions(node)), False

    patches.put(leadership, "_open_writer", wrong)


def who_leads_under_the_spare_id_is_let_go_on(patches: Patches) -> None:
    patches.put(leadership, "was_written_by_spare", lambda _: False)


def one_refused_topic_keeps_all_from_being_led(patches: Patches) -> None:
    def wrong(admin, specs):
        admin.create(specs)
        return {}

    for module in (own_topics, provision):
        patches.put(module, "create_each", wrong)


def one_that_is_silent_says_nothing_of_all(patches: Patches) -> None:
    for module in (feeds, sources):
        patches.put(module, "answers_so_far", lambda ask: (ask(), True))


def who_leads_offers_before_it_knows(patches: Patches) -> None:
    patches.put(Leader, "has_offered", property(lambda _: True))


def first_records_are_taken_as_they_come(patches: Patches) -> None:
    patches.put(FirstRecords, "is_first", lambda *_: False)


def a_log_ends_where_it_ends(patches: Patches) -> None:
    def wrapper(known):
        return lambda *args: {at: one for at, one in known(*args).items() if one.is_doubted}

    patches.wrap(LastRead, "known", wrapper)


def the_last_record_is_awaited_for_ever(patches: Patches) -> None:
    patches.put(LastRead, "overdue", lambda *_: ())


def the_last_word_of_a_catch_up_ends_a_hold(patches: Patches) -> None:
    """As it was: whoever hears of it, and however far the lane has read since."""

    def ending(told):
        def wrong(self, known, reached):
            is_last = self.again.is_met
            yield from told(self, known, dict.fromkeys(reached, ENDED) if is_last else reached)

        return wrong

    def believing(meet):
        def wrong(self, target):
            meet(self, target)
            words = [self._of(own) for own in self.kept(target)]
            if any(word is not None and word.is_over for word in words):
                self._next.pop(target, None)

        return wrong

    patches.wrap(TargetCatchUp, "_told", ending)
    patches.wrap(Holds, "_meet", believing)


def movers_ask_nobody_whose_messages_are(patches: Patches) -> None:
    patches.put(Movers, "_knows", lambda *_: True)


def a_log_never_begins_anew(patches: Patches) -> None:
    patches.put(Takings, "follow", lambda _self, records: records)


def a_topic_is_the_one_of_its_name(patches: Patches) -> None:
    patches.put(AwaitedTopic, "is_another", lambda *_, **__: False)


def what_groups_passed_stays_passed(patches: Patches) -> None:
    patches.put(Share, "meet", lambda *_: False)


def chains_of_movers_begin_nothing_anew(patches: Patches) -> None:
    patches.put(moving, "position_in_chain", lambda _, offset: offset)


def markers_are_awaited(patches: Patches) -> None:
    def wrapper(mark):
        return lambda self, topic, at, offset, fault: mark(self, topic, at, offset + 1, fault)

    patches.wrap(Moving, "note_written", wrapper)


def orders_outlive_what_is_written_over_them(patches: Patches) -> None:
    def wrapper(take):
        def wrong(records, key, value):
            if value is not None:
                decode_pause(value)
            take(records, key, value)

        return wrong

    patches.wrap(RecordsOfOperators, "take_operator_record", wrapper)


def a_pause_is_written_over() -> None:
    late_words.test_what_is_written_over_an_order_ends_it_as_compaction_does(
        pause_key(PauseKey("a", "b", None))
    )


def what_vanished_of_movers_is_not_announced(patches: Patches) -> None:
    patches.put(Repair, "_gone", lambda _: None)


def who_was_recovered_keeps_its_links(patches: Patches) -> None:
    """What it has sent over links of before counts as sent over those that there are now."""

    def wrapper(begin_links):
        def wrong(lane, *args, **more):
            known, numbers = lane.progress, lane.ages.numbers
            if known.epoch > 1:
                known.links = {key: numbers.get(key[0].topic, 0) for key in known.sent}
                more.pop("are_new", None)
            begin_links(lane, *args, **more)

        return wrong

    patches.wrap(relinking, "begin_links", wrapper)


def who_reads_again_goes_by_today(patches: Patches) -> None:
    patches.put(Progress, "era_of", lambda *_: None)


def hops_go_by_their_own_topology(patches: Patches) -> None:
    def wrapper(eras_of):
        return lambda lane, source, offset, _=(): eras_of(lane, source, offset)

    for module in (ingress, transit):
        patches.wrap(module, "eras_of", wrapper)


def what_was_deleted_unread_is_not_told(patches: Patches) -> None:
    def wrapper(fetch):
        def wrong(self, *args):
            fetch(self, *args)
            self.skipped.clear()

        return wrong

    for reader in (ChannelReader, QueueConsumer):
        patches.wrap(reader, "_fetch", wrapper)


def nothing_is_bounded(patches: Patches) -> None:
    patches.put(completion, "WAITING_MAX", 1 << 62)
    patches.put(subscriptions, "SPARE_MAX", 1 << 62)
    patches.put(OwnQueues, "left_long_ago", lambda *_: [])
    endless = {"retention.bytes": node_topics.FOREVER}
    patches.put(node_topics, "_LOGGED_CONTROL", node_topics._LOGGED_CONTROL | endless)


def a_new_node_has_other_lanes() -> None:
    other_files.test_it_is_told_before_anything_is_written({"lanes": 2})


def a_limited_log_loses_its_end() -> None:
    limits_of_recreated.test_what_a_log_has_lost_does_not_wait("dead-letter")


def a_limited_queue_loses_its_end() -> None:
    test = limits_of_recreated.test_what_came_where_a_log_lost_its_end_is_given_up_by_letters_alone
    test(is_queue=True)


def a_mesh_is_started_from_another_file() -> None:
    mesh = Mesh(topology_from_mapping(CHAIN))
    in_force.test_another_topology_is_never_written_over_what_is_in_force(mesh)


def two_start_a_mesh_at_once() -> None:
    in_force.test_of_two_who_start_a_mesh_from_different_files_one_comes_first({"k": "l", "l": "k"})


def a_link_has_no_leader() -> None:
    unwritable.test_who_leads_touches_nothing_that_has_no_leader(SmallMesh(), unwritable.LINK)


def a_link_loses_its_leader_inside_a_transaction() -> None:
    shown = unwritable.test_a_node_is_led_on_while_a_transaction_waits_for_one_of_its_links
    shown(SmallMesh())


def a_node_starts_without_a_topic() -> None:
    refused_topics.test_a_refused_topic_costs_what_it_is_for("mesh.b.to.a.t")


def a_node_starts_beside_a_neighbour_without_a_leader() -> None:
    shown = in_part.test_who_starts_beside_a_control_topic_that_is_away_hears_the_others
    shown(SmallMesh(), "mesh.a.control", "no leader")


def a_lane_is_taken_beside_a_partition_without_a_leader() -> None:
    in_part.test_who_takes_a_lane_reads_what_has_a_leader(SmallMesh(), "mesh.a.in.g")


def a_group_falls_silent() -> None:
    retention.test_a_group_that_is_hidden_or_has_lost_its_offsets_keeps_what_it_may_want(
        SmallMesh()
    )


def offers_are_read_again() -> None:
    recreated_control.test_nothing_is_missed_while_offers_are_read_again(SmallMesh())


def a_node_starts_with_another_control_topic() -> None:
    recreated_control.test_epochs_rise_when_the_control_topic_is_another_one(SmallMesh())


def clients_are_recreated_while_nobody_is_there() -> None:
    when = "while nobody is there"
    recreated_control.test_a_clients_topic_recreated_is_read(SmallMesh(), when)


def starts_wait_for_every_proof(patches: Patches) -> None:
    patches.put(UnprovenNeighbours, "overdue", lambda *_: ())


def neighbours_start_with_spoilt_offers() -> None:
    unproven_start.test_neighbours_that_wait_for_one_another_serve_all_the_same(SmallMesh())


def what_is_found_is_awaited(patches: Patches) -> None:
    give_up = Feeds._give_up

    def wrong(self, feed, now_ms):
        return () if feed.assigned else give_up(self, feed, now_ms)

    patches.put(Feeds, "_give_up", wrong)


def a_neighbours_brokers_die_as_it_is_found() -> None:
    unproven_start.test_what_is_found_and_never_read_to_its_end_keeps_nobody_waiting(
        SmallMesh(), by_transaction=False
    )


def unproven_marks_are_acknowledged(patches: Patches) -> None:
    def wrong(self, name, scope, reader):
        version = (reader.mark.epoch, reader.mark.number)
        self.pending.versions.note(input_name(name, scope), max(version, reader.recalled))

    patches.put(Hearing, "_note_version", wrong)


def a_stranger_withdraws_before_a_mark() -> None:
    shown = node_machine.test_what_a_mark_does_not_prove_is_in_force_and_not_acknowledged
    shown(node_machine.serving())


def beats_of_the_future_are_left_alone(patches: Patches) -> None:
    patches.put(ControlRepair, "read_beat", lambda *_: None)


def a_heartbeat_is_ahead() -> None:
    shown = node_machine.test_a_heartbeat_that_is_ahead_of_its_leader_is_outdone
    shown(node_machine.serving(), (9, 1))


def a_scope_without_a_mark_is_empty(patches: Patches) -> None:
    def wrapper(read_written):
        def wrong(records):
            records = list(records)
            written = read_written(records)
            newest = {record.key() or b"": record.value() for record in records}
            for key in [one for one, value in newest.items() if value is None]:
                if isinstance(found := parse_control_key(key), MarkKey):
                    written.offers.pop(found.scope, None)
            return written

        return wrong

    patches.wrap(control_writer, "read_written", wrapper)


def what_comes_before_an_offer_is_passed_over(patches: Patches) -> None:
    patches.put(Leader, "note_written", lambda *_: None)


def a_stranger_writes_before_the_first_offer() -> None:
    node_machine.test_what_a_stranger_writes_before_the_first_offer_is_compared_with_it()


def a_stranger_takes_a_mark_away() -> None:
    bad_records.test_entries_whose_mark_a_stranger_took_away_still_stand()


def a_member_dies() -> None:
    links = ("a-h", "h-c", "h-d")
    dead_members.test_a_dead_member_starves_nobody(dead_members.ANY, links, "cd", "c", "d")


def a_worker_that_lags_takes_the_lead() -> None:
    lagging.test_who_takes_the_lead_takes_back_nothing_that_was_acknowledged()


def an_ingress_is_recreated_before_it_was_read() -> None:
    first.test_an_ingress_that_is_recreated_before_anything_was_read_is_another_one()


def a_log_is_cut_off_where_its_last_record_is_read_once_more() -> None:
    first.test_a_log_that_is_cut_off_meanwhile_is_found(come=0)


def nobody_knows_of_a_last_commit() -> None:
    unheard.test_a_commit_of_which_nobody_knows_ends_no_hold(
        unheard.OUTBOX, "b", Outcome.UNKNOWN_COMMITTED
    )


def a_last_commit_comes_late() -> None:
    unheard.test_a_commit_that_comes_when_its_catch_up_has_ended_ends_no_hold("full")


def a_log_is_cut_off_and_grows_less_than_it_lost() -> None:
    shown = truncated_logs.test_it_stops_where_the_log_is_another_and_goes_on_there_once_that_is_accepted
    shown(lost=2, come=1)


def _stage_of(spec: Mapping[str, object]) -> queue_movers.Stage:
    mesh = Mesh(topology_from_mapping({**queue_movers.CHAIN, **spec}))
    return queue_movers.Stage(mesh)


def a_queue_is_recreated_under_its_mover() -> None:
    queue_movers.test_what_comes_to_a_queue_recreated_moves(_stage_of, 0.0)


def a_queue_loses_its_end_before_its_next_mover() -> None:
    queue_movers.test_what_comes_where_a_queue_lost_its_end_moves(_stage_of, 12.0, 2)


def more_waits_in_a_queue_than_one_demand() -> None:
    queue_movers.test_more_than_one_demand_moves(_stage_of, queue_movers.ANY)


def a_queue_is_recreated_and_outgrows_its_consumer() -> None:
    mesh = Mesh(topology_from_mapping(CHAIN))
    client = mesh.client("a")
    client.wait(client.subscribe("orders", "acme/>"))
    shown = consuming.test_a_queue_recreated_that_has_outgrown_its_consumer_is_handed_out_whole
    shown(mesh, client)


def a_lane_is_taken(when: str) -> Callable[[], None]:
    return lambda: recovered.test_a_repair_begins_where_the_new_link_began(when)


def what_was_sent_before_a_change_is_sent_again() -> None:
    eras.test_a_repair_stamps_what_was_stamped_before(SmallMesh())


def a_reader_is_left_behind(kind: str, told: Callable[..., None]) -> Callable[[], None]:
    def shown() -> None:
        mesh = Mesh(topology_from_mapping(CHAIN))
        client = mesh.client("a")
        client.wait(client.subscribe("orders", "acme/>"))
        told(kind, client, mesh)

    return shown


def a_worker_dies_before_letters_are_committed() -> None:
    endpoint_limits.test_a_crash_before_the_deletion_gives_nothing_up_twice(Call.COMMIT)


def a_lease_is_renewed_at_a_standby() -> None:
    test = (
        own_subscriptions.test_leases_that_are_renewed_leave_nothing_behind_where_nobody_ends_them
    )
    test(subscriptions.OwnSubscriptions())


GROWTH: Mapping[str, Callable[[], None]] = {
    "completion": completed.test_what_waits_for_a_node_that_is_down_does_not_grow_with_every_change,
    "leases": a_lease_is_renewed_at_a_standby,
    "queues": own_queues.test_a_queue_that_was_left_keeps_its_address_until_nothing_can_be_on_its_way,
    "log": settings.test_the_log_of_control_records_has_an_end_in_bytes,
}


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


def what_waits_in_a_queue_while_sources_hold() -> None:
    queue_movers.test_nothing_moves_while_sources_hold(_stage_of)


def what_a_former_owner_moved_vanishes() -> None:
    queue_movers.test_what_a_former_owner_moved_is_announced_if_it_vanished(_stage_of)


DEMANDS = Mutation("demands-never-end", "what a dead member wanted stays", demands_never_end)
OLD_MARKS = Mutation("old-marks-prove", "marks of long ago end what came later", old_marks_prove)
EPOCHS = Mutation("epochs-begin-again", "another control topic, epoch 1 again", epochs_begin_again)
MADE = Mutation(
    "made-otherwise",
    "a change begins with a node that was made otherwise",
    what_a_new_node_was_made_with_is_not_looked_at,
)
DISPLACED = Mutation("displaced-by-name", "offsets of a former topic go", displacing_goes_by_names)
COUNTED = Mutation("counts-by-name", "ages go by the name of a topic", counts_go_by_names)
WAITS = Mutation("lost-waits", "what a log has lost waits there", what_was_counted_before_waits)
PASSED_ON = Mutation(
    "passed-for-good", "groups have passed what a later leader wrote", what_was_passed_stays_passed
)
REPEATED = Mutation(
    "repeats-uncounted",
    "requests that were sent twice show nowhere",
    repeated_requests_are_not_counted,
)
LATE_ABORT = Mutation("late-abort", "an abort takes back a switch", an_abort_is_newer_than_a_switch)
UNHEARD = Mutation(
    "other partitions unread",
    "what stands in another partition of clients than the first is not told",
    other_partitions_are_not_read,
)
OTHERS = Mutation("others-written-over", "a start writes over another", others_are_written_over)
CLAIMS = Mutation("claims-nothing", "two starts do not claim", starters_claim_nothing)
SILENT = Mutation(
    "silent-forgotten", "groups without offsets want nothing", groups_that_fell_silent_are_forgotten
)
LEADS_BLIND = Mutation(
    "leads-blind", "who leads writes where no leader is", nobody_looks_before_he_leads
)
NO_SPARE = Mutation("no-spare", "a held id keeps a node from being led", a_held_id_has_no_spare)
LET_GO_ON = Mutation(
    "let-go-on", "a spare id stays with who slept", who_leads_under_the_spare_id_is_let_go_on
)
ALL_OR_NONE = Mutation(
    "all-or-none", "one refused topic is all", one_refused_topic_keeps_all_from_being_led
)
ALL_SILENT = Mutation(
    "all-silent", "one without a leader silences all", one_that_is_silent_says_nothing_of_all
)
OFFERS_LESS = Mutation("offers-less", "who leads forgets", who_leads_offers_before_it_knows)
FIRST_TAKEN = Mutation(
    "first-taken", "whose records are read first", first_records_are_taken_as_they_come
)
ENDS_WHERE_IT_ENDS = Mutation("end-is-end", "a log ends where it ends", a_log_ends_where_it_ends)
AWAITED = Mutation(
    "awaited-for-ever", "a lost record is awaited", the_last_record_is_awaited_for_ever
)
LAST_WORD = Mutation(
    "last-word-ends-hold", "whoever reads it", the_last_word_of_a_catch_up_ends_a_hold
)
MOVES_BLIND = Mutation("moves-blind", "whose messages move", movers_ask_nobody_whose_messages_are)
MOVERS_HOLD = Mutation("movers-hold", "queues move while sources hold", movers_go_on)
ONE_LOG = Mutation("one-log", "a log never begins anew", a_log_never_begins_anew)
BY_NAME = Mutation("by-name", "a topic is its name", a_topic_is_the_one_of_its_name)
PASSED = Mutation("passed-stays", "logs lose nothing", what_groups_passed_stays_passed)
ONE_CHAIN = Mutation(
    "one-chain", "what stands where others stood", chains_of_movers_begin_nothing_anew
)
MARKERS = Mutation("markers-awaited", "a demand ends with a marker", markers_are_awaited)
OUTLIVE = Mutation(
    "orders-outlive", "orders stand under garbage", orders_outlive_what_is_written_over_them
)
VANISHED = Mutation(
    "moved-vanished", "what vanished of movers", what_vanished_of_movers_is_not_announced
)
LINKS = Mutation("old-links", "who was recovered", who_was_recovered_keeps_its_links)
AGAIN = Mutation("era-of-today", "who reads again", who_reads_again_goes_by_today)
OWN_ERA = Mutation("era-of-the-hop", "what waited is of today", hops_go_by_their_own_topology)
UNTOLD = Mutation(
    "skipped-untold", "readers jump over what is gone", what_was_deleted_unread_is_not_told
)
BESIDE_THE_SWARM: Mapping[str, Callable[[], None]] = {
    "displaced-before-letters": a_worker_dies_before_letters_are_committed,
    "recalled-direct": lagging.test_a_filter_that_was_known_of_a_direct_endpoint_alone_is_recalled_too,
    "lagging-leader-keeps": lagging.test_a_leader_that_lags_overwrites_nothing_that_its_predecessor_has_kept,
}
"""What shows the bugs that no schedule shows."""
ENDLESS = Mutation("endless", "what is bounded grows", nothing_is_bounded)
PROOFS = Mutation("proofs-awaited", "a start waits for every proof", starts_wait_for_every_proof)
FOUND = Mutation("found-awaited", "what is found is awaited", what_is_found_is_awaited)
UNPROVEN = Mutation(
    "unproven-acknowledged", "what no mark proves is acknowledged", unproven_marks_are_acknowledged
)
AHEAD = Mutation("beat-ahead", "a forged beat stays", beats_of_the_future_are_left_alone)
NO_MARK = Mutation("no-mark", "entries without a mark stay", a_scope_without_a_mark_is_empty)
MEANWHILE = Mutation(
    "meanwhile", "who leads compares what it took", what_comes_before_an_offer_is_passed_over
)
GONE = Mutation("gone-awaited", "a lane waits for lost records", gone_subscriptions_are_awaited)


@pytest.mark.parametrize(
    ("mutation", "shown"),
    [
        pytest.param(DEMANDS, a_member_dies, id="demands-never-end"),
        pytest.param(OLD_MARKS, offers_are_read_again, id="old-marks-prove"),
        pytest.param(EPOCHS, a_node_starts_with_another_control_topic, id="epochs-begin-again"),
        pytest.param(GONE, clients_are_recreated_while_nobody_is_there, id="gone-awaited"),
        pytest.param(OFFERS_LESS, a_worker_that_lags_takes_the_lead, id="offers-less"),
        pytest.param(PROOFS, neighbours_start_with_spoilt_offers, id="proofs-awaited"),
        pytest.param(FOUND, a_neighbours_brokers_die_as_it_is_found, id="found-awaited"),
        pytest.param(UNPROVEN, a_stranger_withdraws_before_a_mark, id="unproven-acknowledged"),
        pytest.param(AHEAD, a_heartbeat_is_ahead, id="beat-ahead"),
        pytest.param(NO_MARK, a_stranger_takes_a_mark_away, id="no-mark"),
        pytest.param(MEANWHILE, a_stranger_writes_before_the_first_offer, id="meanwhile"),
        pytest.param(FIRST_TAKEN, an_ingress_is_recreated_before_it_was_read, id="first-taken"),
        pytest.param(
            ENDS_WHERE_IT_ENDS, a_log_is_cut_off_and_grows_less_than_it_lost, id="end-is-end"
        ),
        pytest.param(
            AWAITED, a_log_is_cut_off_where_its_last_record_is_read_once_more, id="awaited-for-ever"
        ),
        pytest.param(
            UNHEARD,
            other_partitions.test_an_end_in_another_partition_is_told_until_it_is_one,
            id="other-partitions",
        ),
        pytest.param(
            COUNTED, limits_of_recreated.test_nothing_is_older_than_its_topic, id="counts-by-name"
        ),
        pytest.param(
            DISPLACED,
            limits_of_recreated.test_nothing_goes_by_offsets_of_the_former_one,
            id="displaced-by-name",
        ),
        pytest.param(WAITS, a_limited_log_loses_its_end, id="lost-waits"),
        pytest.param(PASSED_ON, a_limited_queue_loses_its_end, id="passed-for-good"),
        pytest.param(
            REPEATED,
            dirty_commits.test_a_repetition_in_a_quick_transaction_counts_too,
            id="repeats-uncounted",
        ),
        pytest.param(LATE_ABORT, late_abort.test_a_switch_is_not_taken_back, id="late-abort"),
        pytest.param(MADE, a_new_node_has_other_lanes, id="made-otherwise"),
        pytest.param(OTHERS, a_mesh_is_started_from_another_file, id="others-written-over"),
        pytest.param(CLAIMS, two_start_a_mesh_at_once, id="claims-nothing"),
        pytest.param(SILENT, a_group_falls_silent, id="silent-forgotten"),
        pytest.param(LEADS_BLIND, a_link_has_no_leader, id="leads-blind"),
        pytest.param(NO_SPARE, a_link_loses_its_leader_inside_a_transaction, id="no-spare"),
        pytest.param(LET_GO_ON, a_link_loses_its_leader_inside_a_transaction, id="let-go-on"),
        pytest.param(
            ALL_SILENT, a_node_starts_beside_a_neighbour_without_a_leader, id="all-silent"
        ),
        pytest.param(
            ALL_SILENT, a_lane_is_taken_beside_a_partition_without_a_leader, id="all-silent-lanes"
        ),
        pytest.param(LAST_WORD, nobody_knows_of_a_last_commit, id="last-word-ends-hold"),
        pytest.param(LAST_WORD, a_last_commit_comes_late, id="last-word-ends-hold-late"),
        pytest.param(MOVES_BLIND, a_queue_is_recreated_under_its_mover, id="moves-blind"),
        pytest.param(MOVERS_HOLD, what_waits_in_a_queue_while_sources_hold, id="movers-hold"),
        pytest.param(ONE_LOG, a_queue_is_recreated_under_its_mover, id="one-log"),
        pytest.param(BY_NAME, a_queue_is_recreated_and_outgrows_its_consumer, id="by-name"),
        pytest.param(PASSED, a_queue_loses_its_end_before_its_next_mover, id="passed-stays"),
        pytest.param(ONE_CHAIN, a_queue_loses_its_end_before_its_next_mover, id="one-chain"),
        pytest.param(MARKERS, more_waits_in_a_queue_than_one_demand, id="markers-awaited"),
        pytest.param(VANISHED, what_a_former_owner_moved_vanishes, id="moved-vanished"),
        pytest.param(OUTLIVE, a_pause_is_written_over, id="orders-outlive"),
        pytest.param(LINKS, a_lane_is_taken("before the change"), id="old-links-before"),
        pytest.param(LINKS, a_lane_is_taken("at the switch"), id="old-links-switch"),
        pytest.param(AGAIN, what_was_sent_before_a_change_is_sent_again, id="era-of-today"),
        pytest.param(
            OWN_ERA,
            eras.test_what_is_older_than_the_topology_before_a_link_does_not_cross_it,
            id="era-of-the-hop",
        ),
        *(
            pytest.param(
                UNTOLD,
                a_reader_is_left_behind(kind, told),
                id=f"skipped-untold-{kind}-{when}",
            )
            for kind in ("channel", "queue")
            for when, told in (
                ("late", left_behind.test_who_comes_back_too_late_is_told_what_was_deleted),
                ("slow", left_behind.test_who_reads_too_slowly_is_told_what_was_deleted),
            )
        ),
        *(
            pytest.param(one, BESIDE_THE_SWARM[one.name], id=one.name)
            for one in MUTATIONS
            if one.name in UNSHOWN
        ),
        *(pytest.param(ENDLESS, shown, id=f"endless-{of}") for of, shown in GROWTH.items()),
        pytest.param(ALL_OR_NONE, a_node_starts_without_a_topic, id="all-or-none"),
    ],
)
def test_a_bug_that_was_cured_would_be_found(mutation: Mutation, shown: Callable[[], None]) -> None:
    """With the bug the test fails, and without it passes. Spec: K5, K28, DESIGN 6."""
    shown()
    with mutation.planted(), pytest.raises((AssertionError, MeshError, pytest.fail.Exception)):
        shown()
