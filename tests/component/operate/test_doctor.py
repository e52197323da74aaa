"""Each trouble planted alone, and found alone; what only looks like it is left in peace."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mesh.model.control import Interest, Subscription
from mesh.model.facts import EpochRaised, SourceAt
from mesh.model.state import Ledger
from mesh.operate.doctor import Category, Check, Result, examine
from mesh.operate.doctor.links import check_ways
from mesh.transport.node_topics import node_topics
from mesh.transport.port import Copies, TopicPartition, TopicSpec
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact, encode_ledger
from mesh.wire.subscriptions import encode_subscription
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import examination, failed, unwell


def test_topics_that_are_missing_or_differ_are_named(mesh: Mesh) -> None:
    kafka = mesh.world.kafka["left"]
    kafka.delete_topic("mesh.a.dlq")
    kafka.delete_topic("mesh.a.to.b.d")
    kafka.admin().create([TopicSpec(name="mesh.a.to.b.d", partitions=1)])
    kafka.topics["mesh.a.in.g"].settings["retention.ms"] = "604800000"
    fault = failed(mesh)["topics of a exist on left with their settings"]
    assert "mesh.a.dlq does not exist" in fault
    assert "mesh.a.to.b.d has 1 partitions instead of 4" in fault
    assert "mesh.a.in.g has retention.ms=604800000 instead of -1" in fault


def test_whoever_is_declared_with_other_lanes_is_not_told_to_delete_what_it_knows(
    mesh: Mesh,
) -> None:
    """Spec: K14."""
    kafka = mesh.world.kafka["left"]
    for topic, partitions in (("mesh.a.lanes", 3), ("mesh.a.progress", 6)):
        kafka.delete_topic(topic)
        kafka.admin().create([TopicSpec(name=topic, partitions=partitions)])
    found = only(mesh, Category.TOPICS)
    assert "node a cannot have 1 lane: it was made with 3 lanes" in found.error
    assert "write `lanes: 3`" in found.hint
    assert "delete" not in found.hint


def test_what_nobody_reads_is_stalled(mesh: Mesh) -> None:
    mesh.pause(3.0)
    mesh.world.kill("a")
    mesh.publish("a", "acme/x")
    fault = failed(mesh, Category.DELIVERY)["what clients published at a is read"]
    assert fault.startswith("1 records wait on mesh.a.in.g")


def only(mesh: Mesh, *categories: Category, **options: object) -> Check:
    """Return the one check that is not well."""
    [found] = unwell(mesh, *categories, **options)
    assert found.hint
    return found


@pytest.fixture
def busy(mesh: Mesh) -> Mesh:
    """A mesh that serves, with a subscription at its far end and a message on its way."""
    mesh.subscribe("c", "e", "acme/>")
    mesh.publish("a", "acme/x")
    mesh.pause(2.0)
    return mesh


def test_a_transaction_that_stands_still_is_named(busy: Mesh) -> None:
    """Spec: R2, R16: a warning after a short look, a failure after the transaction time-out."""
    writer = busy.world.kafka["left"].writer("client", "client-1")
    writer.begin()
    for _ in range(3):
        writer.produce("mesh.a.in.g", b"x", None, 2, headers=[("mesh-subject", b"acme/x")])
    found = only(busy)
    assert (found.category, found.result) == (Category.TRANSACTIONS, Result.WARNING)
    assert found.description == "no open transaction hides records of a"
    at = busy.world.kafka["left"].log(TopicPartition("mesh.a.in.g", 2))
    assert at is not None
    assert found.error == (
        f"mesh.a.in.g[2] stands still at offset {at.stable} and hides 3 records, for 2 s or longer"
    )
    assert "--patience 16" in found.hint
    long = only(busy, Category.TRANSACTIONS, patience_s=16.0)
    assert long.result is Result.FAILED
    assert f"abort --topic mesh.a.in.g --partition 2 --start-offset {at.stable}" in long.hint
    writer.commit()
    busy.pause(1.0)
    assert failed(busy) == {}


def test_a_transaction_that_ends_while_we_look_is_none(busy: Mesh) -> None:
    writer = busy.world.kafka["left"].writer("client", "client-1")
    writer.begin()
    writer.produce("mesh.a.in.g", b"x", None, 2, headers=[("mesh-subject", b"acme/x")])

    def pause(seconds: float) -> None:
        busy.pause(seconds)
        writer.abort()
        writer.begin()
        writer.produce("mesh.a.in.g", b"x", None, 2, headers=[("mesh-subject", b"acme/x")])

    assert failed(busy, Category.TRANSACTIONS, time=replace(busy.time, pause=pause)) == {}


def test_what_stands_still_on_a_link_is_told_in_frames_and_messages(busy: Mesh) -> None:
    kafka = busy.world.kafka["left"]
    kafka.blocked.add(("mesh-b", "mesh.a.to.b.g"))
    busy.publish("a", "acme/y")
    busy.pause(1.0)
    found = only(busy)
    assert (found.category, found.result) == (Category.LINKS, Result.FAILED)
    assert found.description == "what waits on link a-b (Z) moves"
    assert found.error == "a->b stands still: 1 frames (1 messages) wait for b"
    assert (found.figures["a->b frames"], found.figures["b->a frames"]) == (1, 0)


def test_what_moves_on_a_link_is_only_noted(busy: Mesh) -> None:
    kafka = busy.world.kafka["left"]
    kafka.blocked.add(("mesh-b", "mesh.a.to.b.g"))
    for _ in range(3):
        busy.publish("a", "acme/y")
        busy.pause(1.0)
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        kafka.blocked.clear()
        busy.pause(seconds)
        kafka.blocked.add(("mesh-b", "mesh.a.to.b.g"))
        busy.publish("a", "acme/z")
        busy.pause(0.5)

    checks = examine(examination(busy, time=replace(busy.time, pause=pause)), [Category.LINKS])
    noted = {one.description: (one.result, one.note) for one in checks if one.note}
    assert paused
    assert noted == {
        "what waits on link a-b (Z) moves": (
            Result.OK,
            "a->b moves: 1 frames (1 messages) wait",
        )
    }


def test_a_reader_that_is_dead_leaves_a_warning_on_its_link(busy: Mesh) -> None:
    busy.world.kill("c")
    busy.publish("a", "acme/y")
    busy.pause(12.0)
    [waiting] = [one for one in unwell(busy, Category.LINKS) if "moves" in one.description]
    assert waiting.result is Result.WARNING
    assert waiting.error == (
        "b->c stands still: 1 frames (1 messages) wait for c, which sends no heartbeats"
    )


def test_the_marker_of_a_clients_transaction_is_no_message(busy: Mesh) -> None:
    """It takes an offset that nobody ever passes."""
    writer = busy.world.kafka["left"].writer("client", "client-1")
    writer.begin()
    writer.produce("mesh.a.in.g", b"x", None, 2, headers=[("mesh-subject", b"acme/x")])
    writer.commit()
    busy.pause(1.0)
    assert failed(busy) == {}


def test_a_topic_recreated_is_told_by_its_id(busy: Mesh) -> None:
    """Spec: R6."""
    kafka = busy.world.kafka["left"]
    busy.world.kill("b")
    old = kafka.admin().describe(["mesh.a.to.b.g"])["mesh.a.to.b.g"].topic_id.hex()
    kafka.delete_topic("mesh.a.to.b.g")
    kafka.admin().create(node_topics(busy.topology, "a"))
    new = kafka.admin().describe(["mesh.a.to.b.g"])["mesh.a.to.b.g"].topic_id.hex()
    found = only(busy, Category.DELIVERY)
    assert (found.description, found.result) == (
        "positions of b lie within their logs",
        Result.FAILED,
    )
    assert re.sub(r"\[\d\]", "[N]", found.error) == (
        f"mesh.a.to.b.g[N] was recreated: the position belongs to topic id {old}, it is {new} now"
    )


@pytest.mark.parametrize(("letter", "result"), [("g", Result.FAILED), ("d", Result.WARNING)])
def test_a_truncated_log_is_told(busy: Mesh, letter: str, result: Result) -> None:
    """Spec: R6: a guaranteed source stops, a direct one counts and goes on."""
    busy.world.kill("a")
    place = TopicPartition(f"mesh.a.in.{letter}", 3)
    topic_id = busy.world.kafka["left"].topics[place.topic].info.topic_id
    told = SourceAt(TopicPartition(place.topic, 3), topic_id, 7)
    busy.world.kafka["left"].writer("x").produce(
        "mesh.a.progress", encode_fact(told), fact_key(told.key), 0
    )
    found = only(busy, Category.DELIVERY)
    assert found.result is result
    log = busy.world.kafka["left"].log(place)
    assert log is not None
    assert found.error == (
        f"{place.topic}[3] was truncated: it ends at {log.end}, the position is 7"
    )


def test_retention_that_overtook_a_reader_is_told(busy: Mesh) -> None:
    """Spec: R6."""
    kafka = busy.world.kafka["left"]
    busy.world.kill("a")
    places = [TopicPartition("mesh.a.in.g", number) for number in range(4)]
    writer = kafka.writer("x")
    for place in places:
        for _ in range(3):
            writer.produce(place.topic, b"x", None, place.partition)
    [read] = [place for place, end in kafka.admin().ends(places).items() if end > 3]
    assert kafka.admin().ends([read]) == {read: 4}
    kafka.admin().delete_before({read: 3})
    faults = failed(busy, Category.DELIVERY)
    assert faults["positions of a lie within their logs"] == (
        f"mesh.a.in.g[{read.partition}] begins at 3, the position is 1: retention took 2"
    )


def test_a_node_that_waits_names_the_scope_it_waits_for(mesh: Mesh) -> None:
    """Spec: K23."""
    mesh.world.kafka["left"].blocked.add(("mesh-b", "mesh.a.control"))
    mesh.pause(3.0)
    at = examination(mesh)
    [serving] = [one for one in examine(at, [Category.NODES]) if one.description == "node b serves"]
    assert serving.error == (
        "sends heartbeats but does not serve yet: what a offers is not proven (scopes Z:b/foreign, Z:b/own)"
    )


def test_entries_that_do_not_give_their_mark_are_told(busy: Mesh) -> None:
    """Spec: K23."""
    at = examination(busy)
    for offers in at.view.nodes["c"].offers.values():
        offers.pop("acme/>", None)
    found = {one.description: one.error for one in examine(at, [Category.INTEREST]) if one.error}
    assert found == {
        "interest of c is proven and known everywhere": (
            "the entries of scope Z:b/own do not match its mark"
        )
    }


def test_a_subscription_that_nobody_can_read_is_told(busy: Mesh) -> None:
    """Spec: K13."""
    writer = busy.world.kafka["left"].writer("x")
    writer.produce("mesh.a.clients", b'{"kind": "pigeon"}', b"e acme/>", 0)
    busy.pause(2.0)
    found = only(busy)
    assert found.description == "subscriptions written at a can be read"
    assert found.result is Result.WARNING
    assert found.error.startswith("mesh.a.clients offset 0: ")
    writer.produce("mesh.a.clients", None, b"e acme/>", 0)
    busy.pause(2.0)
    assert failed(busy) == {}


def test_a_subscription_in_a_partition_that_nobody_reads_is_told(busy: Mesh) -> None:
    """Brokers make `clients` with several for a producer that comes first. Spec: K13."""
    busy.world.kafka["right"].grow("mesh.c.clients", 2)
    writer = busy.world.kafka["right"].writer("x")
    writer.produce("mesh.c.clients", b"{}", b"far acme/>", 1)
    busy.pause(12.0)
    found = only(busy, Category.INTEREST)
    assert found.description == "subscriptions written at c can be read"
    assert found.error == (
        "mesh.c.clients partition 1 offset 0: a subscription, and nodes read only partition 0"
    )
    hint = only(busy, Category.TOPICS).hint
    assert "leave it, and write to partition 0" in hint
    writer.produce("mesh.c.clients", None, b"far acme/>", 1)
    busy.pause(2.0)
    assert failed(busy, Category.INTEREST) == {}


def test_two_endpoints_that_differ_by_case_are_told(busy: Mesh) -> None:
    """The client library refuses the second; a plain Kafka client asks nobody. Spec: DESIGN 3."""
    writer = busy.world.kafka["right"].writer("client")
    writer.produce("mesh.c.clients", encode_subscription(Subscription()), b"E x", 0)
    writer.flush()
    busy.pause(3.0)
    found = only(busy)
    assert (found.category, found.result) == (Category.INTEREST, Result.WARNING)
    assert found.description == "endpoints of c differ by more than case"
    assert found.error == "E and e"


def test_an_epoch_that_goes_back_in_the_progress_is_two_owners(busy: Mesh) -> None:
    """Spec: K16, K18."""
    writer = busy.world.kafka["right"].writer("x")
    offsets = []
    for epoch in (5, 4):
        told = EpochRaised(epoch)
        log = busy.world.kafka["right"].log(TopicPartition("mesh.b.progress", 0))
        assert log is not None
        offsets.append(log.end)
        writer.produce("mesh.b.progress", encode_fact(told), fact_key(told.key), 0)
    found = only(busy)
    assert found.description == "each lane of b has one owner"
    assert found.error == (
        f"mesh.b.progress[0] has epoch 4 at offset {offsets[1]} after 5 at {offsets[0]}"
    )


def test_an_epoch_that_goes_back_in_the_ledger_is_two_owners(busy: Mesh) -> None:
    """Spec: K16, K18."""
    writer = busy.world.kafka["left"].writer("x")
    for epoch in (3, 2, 3):
        writer.produce(
            "mesh.a.ledger",
            encode_ledger(Ledger(node="a", lane=0, lane_epoch=epoch)),
            None,
            0,
        )
    found = only(busy)
    assert found.description == "each lane of a has one owner"
    assert "mesh.a.ledger[0] has epoch 2" in found.error
    assert "more" not in found.error


def test_a_node_started_again_is_one_owner_after_another(busy: Mesh) -> None:
    busy.world.kill("a")
    busy.world.start("a")
    busy.publish("a", "acme/x")
    busy.pause(12.0)
    assert failed(busy) == {}


def test_endpoints_are_kept_as_their_class_demands(busy: Mesh) -> None:
    """Spec: K5."""
    busy.world.kafka["right"].topics["mesh.c.ep.e"].settings["retention.ms"] = "604800000"
    found = only(busy)
    assert found.error == "mesh.c.ep.e has retention.ms=604800000 instead of -1"


def test_more_than_must_be_is_well(busy: Mesh) -> None:
    settings = busy.world.kafka["left"].topics["mesh.a.control"].settings
    settings |= {"max.message.bytes": "99000000", "delete.retention.ms": "604800001"}
    assert failed(busy) == {}


def test_copies_and_their_settings_are_one_line_per_node(busy: Mesh) -> None:
    """Spec: R15."""
    kafka = busy.world.kafka["left"]
    kafka.kept[TopicPartition("mesh.a.in.g", 1)] = Copies(1, 1)
    kafka.topics["mesh.a.control"].settings["min.insync.replicas"] = "1"
    kafka.topics["mesh.a.clients"].settings["min.insync.replicas"] = "3"
    found = only(busy)
    assert (found.category, found.result) == (Category.TOPICS, Result.FAILED)
    assert found.description == "topics of a survive the loss of a broker"
    count = len(node_topics(busy.topology, "a"))
    assert sorted(found.error.split("; ")) == [
        f"copies: 1 instead of 3 on 1 of {count} topics (mesh.a.in.g)",
        f"min.insync.replicas=1 instead of 2 on 1 of {count} topics (mesh.a.control)",
        f"min.insync.replicas=3 of 3: no broker may fail on 1 of {count} topics (mesh.a.clients)",
    ]


def test_an_unclean_election_is_told(busy: Mesh) -> None:
    """Spec: R15."""
    settings = busy.world.kafka["left"].topics["mesh.a.in.g"].settings
    settings["unclean.leader.election.enable"] = "true"
    assert only(busy).error.startswith("unclean.leader.election.enable=true on 1 of ")
    settings["unclean.leader.election.enable"] = "false"
    settings["min.insync.replicas"] = "2"
    assert failed(busy) == {}


@pytest.mark.parametrize(
    ("copies", "result", "said"),
    [
        (Copies(3, 2), Result.WARNING, "are not on all of their brokers (mesh.a.in.g[1])"),
        (Copies(3, 0, has_leader=False), Result.FAILED, "have no leader"),
    ],
)
def test_partitions_behind_or_away_are_told(
    busy: Mesh, copies: Copies, result: Result, said: str
) -> None:
    busy.world.kafka["left"].kept[TopicPartition("mesh.a.in.g", 1)] = copies
    found = only(busy)
    assert found.description == "partitions of a are served and copied in full"
    assert (found.result, said in found.error) == (result, True)


def test_brokers_set_badly_are_told_with_what_follows(busy: Mesh) -> None:
    """Spec: R15."""
    settings = busy.world.kafka["right"].broker_settings
    settings |= {"min.insync.replicas": "2", "auto.create.topics.enable": "false"}
    assert failed(busy) == {}
    settings["min.insync.replicas"] = "1"
    found = only(busy)
    assert found.description == "brokers of right are set to keep what the mesh promises"
    assert found.result is Result.FAILED
    assert found.error == (
        "min.insync.replicas=1 on brokers 1, 2, 3: "
        "a record counts as accepted while one broker has it"
    )
    assert "set min.insync.replicas=2 in server.properties" in found.hint


def test_one_broker_is_a_warning_and_no_flood(busy: Mesh) -> None:
    """Spec: R15: for development."""
    kafka = busy.world.kafka["left"]
    kafka.brokers = 1
    kafka.broker_settings |= {"min.insync.replicas": "1", "default.replication.factor": "1"}
    for place in kafka.admin().copies(list(kafka.topics)):
        kafka.kept[place] = Copies(1, 1)
    found = only(busy)
    assert found.result is Result.WARNING
    assert found.error == "it has one broker, so nothing is replicated: for development only"
    kafka.broker_settings["auto.create.topics.enable"] = "true"
    assert "auto.create.topics.enable=true on broker 1: a mistyped" in only(busy).error
    kafka.broker_settings["transaction.max.timeout.ms"] = "5000"
    assert only(busy).result is Result.FAILED


def test_two_names_of_one_kafka_cluster_are_told(busy: Mesh) -> None:
    """Spec: K4."""
    left = busy.world.kafka["left"]
    found = failed(busy, Category.KAFKA, kafka={"left": left, "right": left})
    assert found == {
        "Kafka cluster right answers and is its own": (
            "is the same Kafka cluster as left (memory-left)"
        )
    }


def test_rights_that_are_missing_are_named(busy: Mesh) -> None:
    """Looking needs to read; a node about to start needs to write its own topics. Spec: R15."""
    kafka = busy.world.kafka["right"]
    kafka.withheld["mesh.b.in.g"] = frozenset({"WRITE"})
    assert failed(busy, Category.RIGHTS) == {}
    found = only(busy, Category.RIGHTS, is_before_start=True)
    assert found.description == "node b may read and write what it must"
    assert found.error == "mesh.b.in.g on right: no right to WRITE"
    assert "--operation Write --topic mesh. --resource-pattern-type prefixed" in found.hint
    kafka.withheld = {"group mesh.b.lanes": frozenset({"READ"})}
    found = only(busy, Category.RIGHTS, is_before_start=True)
    assert found.error == "group mesh.b.lanes on right: no right to READ"
    assert "--operation Read --group mesh. --resource-pattern-type prefixed" in found.hint
    kafka.withheld = {"mesh.c.to.b.g": frozenset({"READ", "DESCRIBE_CONFIGS"})}
    assert failed(busy, Category.RIGHTS) == {
        "the topics of c may be looked at": "mesh.c.to.b.g on right: no right to "
        "DESCRIBE_CONFIGS, READ"
    }
    assert set(failed(busy, Category.RIGHTS, is_before_start=True)) == {
        "node b may read and write what it must",
        "node c may read and write what it must",
    }


def test_before_a_start_topics_may_be_missing(mesh: Mesh) -> None:
    mesh.world.kafka["left"].delete_topic("mesh.a.dlq")
    assert failed(mesh, Category.TOPICS, is_before_start=True) == {}
    mesh.world.kafka["left"].refused["mesh.a.dlq"] = "Authorization failed."
    fault = failed(mesh, Category.TOPICS, is_before_start=True)
    assert "Authorization failed" in fault["topics of a exist on left with their settings"]


def test_clocks_that_differ_are_a_warning(busy: Mesh) -> None:
    """Only by records that arrive while we look. Spec: R15."""
    late = only_clock(busy, wall_ms=lambda: busy.now_ms() - 60_000)
    assert set(late) == {"left", "right"}
    # A beat is up to a tick old when it is read, here or there.
    assert re.match(r"brokers are (?:59\.9|60\.[01]) s ahead of this machine", late["left"])
    kafka = busy.world.kafka["right"]
    kafka.now_ms = lambda: busy.now_ms() - 9_000
    [(where, said)] = only_clock(busy).items()
    behind = r"brokers are (?:8\.9|9\.[01]) s behind"
    assert where == "right"
    assert re.fullmatch(f"{behind} this machine; {behind} those of left", said)


def only_clock(mesh: Mesh, **options: object) -> dict[str, str]:
    found = unwell(mesh, Category.CLOCKS, **options)
    assert {one.result for one in found} == {Result.WARNING}
    return {one.description.split()[2]: one.error for one in found}


def test_without_heartbeats_clocks_are_not_judged(busy: Mesh) -> None:
    for node in "abc":
        busy.world.kill(node)
    busy.world.kafka["right"].now_ms = lambda: 10**12
    assert failed(busy, Category.CLOCKS) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bootstrap.servers": "kafka.test:9092"}, "security.protocol=plaintext"),
        ({"bootstrap.servers": "127.0.0.1:9092,localhost:1"}, ""),
        ({"bootstrap.servers": "kafka.test:9092", "security.protocol": "SASL_SSL"}, ""),
        (
            {
                "bootstrap.servers": "kafka.test:9092",
                "security.protocol": "ssl",
                "ssl.endpoint.identification.algorithm": "none",
            },
            "any certificate passes",
        ),
    ],
)
def test_connections_that_others_can_read_are_a_warning(
    busy: Mesh, options: dict[str, str], said: str
) -> None:
    kafka = {**busy.topology.kafka, "left": replace(busy.topology.kafka["left"], options=options)}
    found = failed(busy, Category.KAFKA, topology=replace(busy.topology, kafka=kafka))
    assert bool(found) is bool(said)
    assert all(said in error for error in found.values())


def test_what_is_away_points_to_kafka_and_nothing_else(busy: Mesh) -> None:
    """Other Kafka clusters are looked at all the same."""
    for node in "bc":
        busy.world.kill(node)
    busy.world.kafka["right"].available = False
    found = unwell(busy)
    assert "no broker answers" in found[0].error
    pointing = [one for one in found if one.hint == "see the checks of kafka"]
    links = {one.error for one in pointing if one.category is Category.LINKS}
    assert {one.error for one in pointing} - links == {"its Kafka cluster does not answer"}
    assert {one.category for one in found if one not in pointing} == {Category.KAFKA}


def test_a_target_that_refuses_records_is_named(busy: Mesh) -> None:
    """Spec: K20: the rest of the lane goes on, so nothing else shows it."""
    busy.world.kafka["right"].topics["mesh.c.ep.e"].message_bytes_max = 1
    busy.publish("a", "acme/y")
    busy.pause(10.0)
    found = failed(busy, Category.DELIVERY)
    assert found["c can write all its targets"] == (
        "held: mesh.c.ep.e cannot be written; what it lacks is written once it takes records again"
    )


def test_a_second_way_to_a_node_is_seen_by_its_address(mesh: Mesh) -> None:
    """Also if the nodes themselves did not see it: somebody offers what is not his. Spec: K26."""
    mesh.pause(3.0)
    assert "a hears of each node over one link only" not in failed(mesh)
    at = examination(mesh)
    uuid = at.view.nodes["a"].identity.uuid  # type: ignore[union-attr]
    scope = next(one for one in at.view.nodes["b"].offers if one.neighbour == "a")
    at.view.nodes["b"].offers[scope][f"$node/{uuid}"] = Interest()
    faults = {check.description: check.error for check in check_ways(at)}
    assert faults["a hears of each node over one link only"] == "a by a and by b"


@pytest.mark.parametrize(
    ("former", "text"),
    [
        (1, "1 record of former neighbours (guest0)"),
        (
            1_001,
            "1001 records of former neighbours (guest0; guest1; guest10; and 998 more)",
        ),
    ],
)
def test_what_is_kept_of_former_neighbours_is_counted(mesh: Mesh, former: int, text: str) -> None:
    """Nobody else can end it once no worker sees their Kafka cluster; a little is no trouble."""
    kafka = mesh.world.kafka["left"]
    writer = kafka.writer("planted")
    for number in range(former):
        at = TopicPartition(f"mesh.guest{number}.to.a.g", 0)
        left = SourceAt(at, number.to_bytes(16, "big"), 7, is_unlinked=True, kafka="far")
        writer.produce("mesh.a.progress", encode_fact(left), fact_key(left.key), 0)
    assert writer.flush() == 0
    checks = examine(examination(mesh), [Category.LANES])
    [found] = [one for one in checks if one.figures.get("former_neighbours")]
    assert found.figures == {"former_neighbours": former, "deleted_topics": 0}
    assert {found.note, found.error} == {"", text}
    assert (found.result is Result.WARNING) == (former > 1)
    assert ("mesh node forget a guest0" in found.hint) == (former > 1)
