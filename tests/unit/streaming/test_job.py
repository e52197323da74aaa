"""What surrounds the audits: settings, topics, state as JSON, checkpoints and outputs."""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.errors import ConfigError
from mesh.model.control import Subscription
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from mesh.wire.keys import RepairKey
from streaming.audits.block import Block, Certificate, Standing
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.finding_register import Finding, records
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.lane_knowledge import EndKey
from streaming.audits.minutes import Crossed, LinkHour
from streaming.audits.order import DeliverySuspicion, OrderKey
from streaming.config import QUERY_VERSION, settings_of
from streaming.connectors.checkpoint import read_positions
from streaming.connectors.options import java_options
from streaming.job import packed_blocks
from streaming.job.outputs import (
    POSITIONS_MAX,
    TABLES,
    certificate_json,
    finding_json,
    status_records,
    take_outputs,
)
from streaming.job.plain import from_plain, to_plain
from streaming.job.snapshots import KEPT, TOLD, Snapshots
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import IngressRow, SourceKey, TopicPartition, UnwantedRow
from streaming.tables.topics import audited_pattern, place_of

FILE = """
apiVersion: mesh/v1
kind: Mesh
metadata: {name: small}
spec:
  kafka: {k1: {}, k2: {bootstrap.servers: "elsewhere:9092"}}
  nodes: {a: {kafka: k1}, in: {kafka: k2}}
  zones: {Z: {kind: one-hop, nodes: [a, in]}}
"""

PLACE = TopicPartition("mesh.a.in.g", 1)


@pytest.fixture
def topology() -> Topology:
    return Topology(
        name="small",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={name: Node(name=name, kafka="k") for name in ("a", "in")},
        zones={"Z": Zone.full_mesh("Z", ZoneKind.ONE_HOP, ["a", "in"])},
        audit_kafka="k",
    )


@pytest.fixture
def state(topology: Topology) -> State:
    """A state with something in every corner."""
    made = State.of(topology)
    made.batch = 7
    made.batches["k1"] = 4
    made.delivery_doubts.append(DeliverySuspicion(OrderKey(PLACE, SourceKey("aa", 1), 0), 3, 4))
    made.read[PLACE] = 12
    made.names.topics["aa"] = PLACE.topic
    made.interest.subscribe(EndpointKey("a", "s"), "x/>", Subscription(), 3)
    made.interest.subscribe(EndpointKey("a", "s"), "z", Subscription(), 4, 1000)
    made.interest.unsubscribe(EndpointKey("a", "s"), "z", 5, 2000)
    made.interest.lanes.ended(EndKey(PLACE, 4), {SourceKey("aa", 1): 9})
    made.interest.lanes.cuts = {}
    made.chains.heads[ChainKey(PLACE, SourceKey("aa", 1))] = ChainHead(4, 5)
    made.register.now_ms, made.register.run = 5000, "r1"
    evidence = (records("mesh.a.to.in.g/0", 3, 4),)
    gap = Finding(
        kind=FindingKind.GAP, text="t", ids=("a/0/0/1",), first=1, last=1, evidence=evidence
    )
    made.register.add(gap)
    row = IngressRow(PLACE, 0, "x/y", Digest(2, 3, 4, 5, 6), 0, 1)
    made.certifier.blocks.publish([row], 5.0)
    block: Block = made.certifier.blocks.open[PLACE][0]
    block.tickets.append(made.progress.open(PLACE, 1, "a"))
    odd = UnwantedRow(TopicPartition("mesh.a.ep.s", 0), SourceKey("dd", 0), 1, 2, 3, 4, 5, ("x",))
    assert not [*made.unwanted.absorb([odd], SubscriptionHistory(), 5.0)]
    made.excuses.moved[EndpointKey("a", "s")] = (5.0, gap)
    made.excuses.ask("a", "in", RepairKey(b"a" * 16, 1, 2, MessageClass.GUARANTEED))
    made.minutes.pending["k"] = {5: {"a->in": Crossed(guaranteed=3, waited=1)}}
    made.minutes.clocks["k"], made.minutes.reported["k"] = 5 * 60_000, 4
    made.minutes.hours["k"] = LinkHour(0, 2, {"a->in": Crossed(direct=1)})
    certificate = Certificate(
        str(PLACE),
        0,
        0,
        1,
        "a/s",
        2,
        2,
        equal=True,
        partial=True,
        digest=row.digest,
    )
    block.issued[EndpointKey("a", "s")] = certificate
    made.certifier.unpublished[certificate.key] = certificate
    return made


def test_a_state_comes_back_from_json_as_it_was(state):
    plain = json.loads(json.dumps(to_plain(state)))
    assert from_plain(State, plain) == state


def test_a_snapshot_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path,
    state: State,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that loses its power would keep the name, and nothing or half of what it stands for."""
    synced: list[tuple[list[str], int]] = []

    def sync(file: int) -> None:
        synced.append((sorted(path.name for path in tmp_path.iterdir()), os.fstat(file).st_size))

    monkeypatch.setattr(os, "fsync", sync)
    snapshots = Snapshots(tmp_path)
    snapshots.save(7, state)
    (path,) = tmp_path.iterdir()
    assert synced == [(["7.json.draft"], path.stat().st_size)]
    snapshots.note_told(["a"])
    assert synced[1:] == [([path.name, "told.draft"], len('["a"]'))]


def test_snapshots_are_whole_newest_first_and_few(tmp_path: Path, state):
    snapshots = Snapshots(tmp_path / "state")
    assert snapshots.load() is None
    for batch in range(10):
        state.batch = batch
        snapshots.save(batch, state)
    (tmp_path / "state" / "99.draft").write_text("half")
    assert snapshots.load() == state
    assert len(list((tmp_path / "state").glob("*.json.gz"))) == KEPT


def test_of_blocks_only_those_that_have_changed_are_packed_again(tmp_path: Path, state):
    snapshots, blocks = Snapshots(tmp_path), state.certifier.blocks
    blocks.open[PLACE][0].tickets.clear()
    blocks.publish([IngressRow(PLACE, 1, "x/y", Digest(1, 2, 3, 4, 5), 4096, 4096)], 5.0)
    first = [*snapshots.packed(blocks)]
    blocks.publish([IngressRow(PLACE, 1, "x/y", Digest(1, 7, 7, 7, 7), 4097, 4097)], 6.0)
    second = [*snapshots.packed(blocks)]
    assert second[0] is first[0]
    assert second[1] != first[1]
    snapshots.save(1, state)
    assert Snapshots(tmp_path).load() == state


def test_whatever_changes_in_a_block_has_it_packed_again(tmp_path: Path, state):
    snapshots, blocks = Snapshots(tmp_path), state.certifier.blocks
    block, endpoint = blocks.open[PLACE][0], EndpointKey("a", "s")
    block.tickets.clear()
    changes = [
        lambda: block.issued.update({endpoint: block.issued[endpoint]._replace(last_ms=7)}),
        lambda: block.touch(9.0),
        lambda: setattr(block, "is_routed", True),
        lambda: block.standing.update({endpoint: Standing(Digest(1), Digest(2), 3)}),
        lambda: block.unequal.update({endpoint: 3}),
        lambda: block.tickets.append(state.progress.open(PLACE, 1, "a")),
        lambda: setattr(block.tickets[0].steps[0], "target", 9),
        lambda: setattr(block.tickets[0], "is_done", True),
        block.tickets.clear,
    ]
    for change in changes:
        before = [*snapshots.packed(blocks)]
        change()
        assert [*snapshots.packed(blocks)] != before
        assert [*snapshots.packed(blocks)] == [*Snapshots(tmp_path).packed(blocks)]


def test_what_a_block_holds_is_told_again_only_when_it_has_changed(tmp_path, state, monkeypatch):
    told = []
    receipts = packed_blocks._Writer.receipts
    note = lambda writer, block: told.append(block) or receipts(writer, block)  # noqa: E731
    monkeypatch.setattr(packed_blocks._Writer, "receipts", note)
    snapshots, blocks = Snapshots(tmp_path), state.certifier.blocks
    block, endpoint = blocks.open[PLACE][0], EndpointKey("a", "s")
    [first] = snapshots.packed(blocks)
    block.issued[endpoint] = block.issued[endpoint]._replace(digest=Digest(9, 9, 9, 9, 9))
    [second] = snapshots.packed(blocks)
    assert (first != second, len(told)) == (True, 1)
    assert [*Snapshots(tmp_path).packed(blocks)] == [second]
    block.touch(9.0)
    assert [*snapshots.packed(blocks)] != [second]
    assert len(told) == 3
    blocks.open[PLACE][0] = replace(block, receipts={})
    assert [*snapshots.packed(blocks)] == [*Snapshots(tmp_path).packed(blocks)]


def test_times_by_the_clock_of_a_process_are_in_no_snapshot(tmp_path: Path, state):
    snapshots, blocks = Snapshots(tmp_path), state.certifier.blocks
    block = blocks.open[PLACE][0]
    block.tickets.clear()
    [before] = snapshots.packed(blocks)
    block.changed_s, block.judged_s = 123_456.789_012_345_6, 123_457.890_123_456_7
    [after] = snapshots.packed(blocks)
    assert after is before
    assert [*Snapshots(tmp_path).packed(blocks)] == [before]


def test_where_logs_end_that_a_ticket_waits_for_is_asked_anew_by_who_goes_on(tmp_path: Path, state):
    """So a block takes no more where a node writes to many partitions, and is not packed anew."""
    snapshots, blocks = Snapshots(tmp_path), state.certifier.blocks
    blocks.open[PLACE][0].tickets = [ticket] = [state.progress.open(PLACE, 1, "a")]
    [before] = snapshots.packed(blocks)
    ticket.steps[0].awaits = {TopicPartition(f"mesh.a.ep.s{at}", 0): at for at in range(400)}
    ticket.ahead = []
    [after] = snapshots.packed(blocks)
    assert after is before
    assert ticket.steps[0].awaits
    snapshots.save(1, state)
    loaded = Snapshots(tmp_path).load()
    [step] = loaded.certifier.blocks.open[PLACE][0].tickets[0].steps
    assert step == replace(ticket.steps[0], awaits=None)


@pytest.mark.parametrize(
    "held",
    [b"[1]", gzip.compress(b"[1]"), gzip.compress(b"[1]" * 99)[:20], b""],
    ids=["text", "another", "cut off", "empty"],
)
def test_a_snapshot_of_something_else_is_refused_in_one_line(tmp_path: Path, held: bytes):
    (tmp_path / "3.json.gz").write_bytes(held)
    with pytest.raises(ConfigError, match="remove the checkpoint folder to begin again"):
        Snapshots(tmp_path).load()


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("mesh.a.in.g", ("a", "in", "", "g")),
        ("mesh.a.to.in.g", ("a", "to", "in", "g")),
        ("mesh.in.in.d", ("in", "in", "", "d")),
        ("mesh.a.ep.s-1", ("a", "ep", "s-1", "")),
        ("mesh.a.to.in.c", ("a", "to", "in", "c")),
        ("mesh.a.ledger", ("a", "ledger", "", "")),
        ("mesh.config", ("", "config", "", "")),
    ],
)
def test_topics_are_taken_apart_and_read(topic, told):
    place = place_of("mesh.", topic)
    assert (place.node, place.kind, place.other, place.letter) == told
    assert re.fullmatch(audited_pattern("mesh."), topic)


@pytest.mark.parametrize(
    "topic",
    ["mesh.audit.findings", "mesh.x.b.in.g", "meshxa.in.g", "mesh.a.lanes", "mesh.a.config"],
)
def test_other_topics_are_not_read(topic):
    assert re.fullmatch(audited_pattern("mesh."), topic) is None


@pytest.mark.parametrize("topic", ["mesh.a", "other.a.in.g", "mesh.a.in.g.x", "mesh.a.lanes"])
def test_a_name_of_no_known_form_is_refused(topic):
    with pytest.raises(ValueError, match="topic"):
        place_of("mesh.", topic)


def test_positions_are_read_from_the_plan_of_a_batch(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    lines = ["v1", '{"batchWatermarkMs":0}', '{"mesh.a.in.g":{"1":12,"0":3}}', "-"]
    (tmp_path / "offsets" / "4").write_text("\n".join(lines))
    assert read_positions(tmp_path, 4) == {PLACE: 12, TopicPartition("mesh.a.in.g", 0): 3}


def test_settings_come_from_arguments_and_the_file(tmp_path: Path):
    path = tmp_path / "mesh.yaml"
    path.write_text(FILE)
    there = str(tmp_path / "c")
    settings = settings_of(
        ["-f", str(path), "--bootstrap", "k1=here:1", "--checkpoint", there, "--until-drained"],
        {"MESH_CACHE": "/cache"},
    )
    assert settings.kafka == {
        "k1": {"bootstrap.servers": "here:1"},
        "k2": {"bootstrap.servers": "elsewhere:9092"},
    }
    assert settings.checkpoint == tmp_path / "c" / QUERY_VERSION
    assert settings.cache == Path("/cache")
    assert settings.until_drained


def test_how_much_it_may_use_is_a_setting(tmp_path: Path):
    path = tmp_path / "mesh.yaml"
    path.write_text(FILE)
    more = ["--bootstrap", "k1=here:1", "--cores", "8", "--memory", "1500m", "--batch", "9"]
    settings = settings_of(["-f", str(path), *more, "--master", "spark://s:7077"], {})
    assert not settings.is_brief
    assert settings_of(["-f", str(path), *more, "--brief"], {}).is_brief
    assert (settings.cores, settings.memory, settings.offsets_max) == (8, "1500m", 9)
    assert settings.master == "spark://s:7077"
    wrong = ["--cores", "0", "--memory", "much", "--batch", "-1", "--master", "somewhere"]
    wrong += ["--checkpoint", str(path / "below")]  # below a file: each batch failed there
    wrong += ["--trigger", "nan"]
    with pytest.raises(ConfigError) as caught:
        settings_of(["-f", str(path), *wrong, "--bootstrap", "k1=here:1"], {})
    assert [problem.where for problem in caught.value.problems] == [
        "--cores 0",
        "--batch -1",
        "--memory much",
        "--trigger nan",
        "--master somewhere",
        f"--checkpoint {path}/below",
    ]


@pytest.mark.parametrize("spoilt", ["", QUERY_VERSION, f"{QUERY_VERSION}/spark"])
def test_a_checkpoint_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    """Wherever in it, and also where nobody has said where it shall be: else no batch is taken."""
    path, state = tmp_path / "mesh.yaml", tmp_path / "state"
    path.write_text(FILE)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    kept = state / "trellis-mesh" / "audit" / "small"
    (kept / spoilt).parent.mkdir(parents=True)
    (kept / spoilt).write_text("no folder")
    base = ["-f", str(path), "--bootstrap", "k1=here:1"]
    for words in (base, [*base, "--checkpoint", str(kept)]):
        with pytest.raises(
            ConfigError, match=f"{kept / spoilt} is no folder; name another"
        ) as told:
            settings_of(words, {})
        assert len(told.value.problems) == 1
    assert settings_of([*base, "--from", "1"], {}).past  # keeps nothing


@pytest.mark.parametrize("text", ["{", "7", "\udcff"])
def test_a_note_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    """Of what was told before the state was saved: the auditor wrote no such file."""
    (tmp_path / TOLD).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match="is no state of this auditor; remove the checkpoint"):
        Snapshots(tmp_path).told()


def test_a_past_range_is_a_setting_and_what_is_for_the_live_auditor_is_refused(tmp_path: Path):
    path = tmp_path / "mesh.yaml"
    path.write_text(FILE)
    base = ["-f", str(path), "--bootstrap", "k1=here:1"]
    assert settings_of(base, {}).past is None
    settings = settings_of([*base, "--from", "1000", "--to", "2000", "--json"], {})
    assert (settings.past, settings.as_json) == ((1000, 2000), True)
    assert settings_of([*base, "--to", "2000"], {}).past == (0, 2000)
    begin, end = settings_of([*base, "--from", "1000"], {}).past or (0, 0)
    assert begin == 1000 < end
    live = ["--checkpoint", str(tmp_path / "c"), "--until-drained", "--listen", ":1"]
    with pytest.raises(ConfigError) as caught:
        settings_of([*base, "--from", "2000", "--to", "2000", *live], {})
    assert [problem.where for problem in caught.value.problems] == [
        "--from",
        "--checkpoint",
        "--until-drained",
        "--listen",
    ]
    with pytest.raises(ConfigError, match="--json: is for a past range"):
        settings_of([*base, "--json"], {})


def test_every_wrong_address_is_told_at_once(tmp_path: Path):
    path = tmp_path / "mesh.yaml"
    path.write_text(FILE)
    with pytest.raises(ConfigError) as caught:
        settings_of(["-f", str(path), "--bootstrap", "k9=x:1", "--bootstrap", "k1"], {})
    assert [problem.where for problem in caught.value.problems] == [
        "--bootstrap k9=x:1",
        "--bootstrap k1",
        "spec.kafka.k1",
    ]


PKCS8 = "-----BEGIN PRIVATE KEY-----\nK\n-----END PRIVATE KEY-----\n"


def test_librdkafka_options_become_those_of_the_java_client():
    java = java_options(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": 'p"\\',
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.pem": "C",
            "ssl.key.pem": PKCS8,
            "ssl.endpoint.identification.algorithm": "none",
            "fetch.wait.max.ms": "5",
        }
    )
    assert java == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="u" password="p\\"\\\\";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "C",
        "ssl.keystore.key": PKCS8,
        "ssl.endpoint.identification.algorithm": "",
    }


def test_certificates_in_files_become_a_key_store(tmp_path: Path):
    """They were dropped, and the auditor then came without a certificate."""
    certificate, key = tmp_path / "user.crt", tmp_path / "user.key"
    certificate.write_text("C")
    key.write_text(PKCS8)
    files = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    assert java_options({**files, "ssl.key.password": "p"}) == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "C",
        "ssl.keystore.key": PKCS8,
        "ssl.key.password": "p",
    }
    assert java_options({"ssl.keystore.location": "/u.p12", "ssl.keystore.password": "p"}) == {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/u.p12",
        "ssl.keystore.password": "p",
    }


def test_tokens_are_fetched_where_librdkafka_fetches_them():
    java = java_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        }
    )
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://login.example/token"
    assert java["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    module, *words = java["sasl.jaas.config"].removesuffix(";").split()
    assert module.endswith("OAuthBearerLoginModule")
    assert words == [
        "required",
        'clientId="me"',
        'clientSecret="s"',
        'scope="kafka"',
        'extension_logicalCluster="lkc-1"',
        'extension_identityPoolId="pool-2"',
    ]


@pytest.mark.parametrize(
    ("options", "place", "said"),
    [
        ({"ssl.crl.location": "/x"}, "ssl.crl.location", "has no such option"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites", "has no such option"),
        (
            {"enable.ssl.certificate.verification": "false"},
            "enable.ssl.certificate.verification",
            "always verifies",
        ),
        ({"ssl.certificate.pem": "C"}, "ssl.key.location", "go together"),
        (
            {"ssl.certificate.pem": "C", "ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"},
            "ssl.key.location",
            "openssl pkcs8",
        ),
        ({"ssl.key.location": "/nowhere/k"}, "ssl.key.location", "No such file"),
        ({"ssl.ca.location": "/etc"}, "ssl.ca.location", "name a file"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"},
            "sasl.oauthbearer.method",
            "`oidc`",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanisms": "ANONYMOUS"},
            "sasl.mechanisms",
            "no mechanism ANONYMOUS",
        ),
    ],
)
def test_what_the_auditor_cannot_do_as_safely_is_refused_by_name(
    options: dict[str, str], place: str, said: str
):
    """Nothing that concerns a connection is dropped in silence."""
    with pytest.raises(ConfigError, match=said) as caught:
        java_options(options, "spec.kafka.k")
    assert [problem.where for problem in caught.value.problems] == [f"spec.kafka.k.{place}"]


def test_findings_and_certificates_have_the_fields_of_the_lab(state):
    (finding,) = state.register.findings.values()
    seen = state.register.seen[finding.id]
    told = json.loads(finding_json(finding.id, finding, seen))
    fields = ["kind", "ids", "link", "endpoint", "path", "first", "last", "text"]
    assert list(told)[: len(fields)] == fields
    assert (told["kind"], told["link"], told["path"]) == ("gap", None, None)
    assert (told["first_seen_ms"], told["last_seen_ms"], told["run"]) == (5000, 5000, "r1")
    assert told["evidence"] == ["mesh.a.to.in.g/0@3-4"]
    assert told["rule"]
    assert told["what_to_do"]
    (certificate,) = state.certifier.unpublished.values()
    assert json.loads(certificate_json(certificate, 6000, "r1")) == {
        "source": "mesh.a.in.g/1",
        "block": 0,
        "from": 0,
        "to": 1,
        "endpoint": "a/s",
        "expected": 2,
        "delivered": 2,
        "equal": True,
        "partial": True,
        "sure": True,
        "ids_digest": "2:0000000000000003:4:5",
        "content_digest": "0000000000000006",
        "first_ms": None,
        "last_ms": None,
        "at_ms": 6000,
        "run": "r1",
    }


def test_what_has_been_taken_out_is_not_published_again(state):
    names = TopicNames("mesh.")
    outputs = list(take_outputs(state, names, {"a->in": 2.5}))
    assert [one.topic.removeprefix("mesh.audit.") for one in outputs] == [
        "findings",
        "history",
        "certificates",
        "links",
        "links",
        "subscriptions",
    ]
    assert json.loads(outputs[3].value or "")["messages_per_s"] == 2.5
    assert list(take_outputs(state, names, {})) == []


def test_a_finding_that_is_taken_back_stays_in_the_history(state):
    names = TopicNames("mesh.")
    (id_,) = state.register.findings
    list(take_outputs(state, names, {}))
    state.register.now_ms = 9000
    state.register.withdraw(id_)
    gone, told = take_outputs(state, names, {})
    assert (gone.topic, gone.key, gone.value) == ("mesh.audit.findings", id_, None)
    assert told.topic == "mesh.audit.history"
    assert json.loads(told.value or "") == {"id": id_, "taken_back_ms": 9000, "run": "r1"}


def test_what_is_kept_of_certificates_is_bounded():
    """They are deleted after two days, their sums by the hour after thirty."""
    day_ms = 24 * 3_600_000
    assert TABLES["certificates"]["retention.ms"] == str(2 * day_ms)
    assert TABLES["hours"]["retention.ms"] == TABLES["history"]["retention.ms"] == str(30 * day_ms)
    assert all("delete" in TABLES[one]["cleanup.policy"] for one in ("certificates", "hours"))


def test_a_status_tells_positions_and_what_waits(state):
    state.certifier.judge(state.world(lambda _: {}), 5.5)
    sources = {"k1": {"batch": 4, "lagging": False, "unread": None}}
    (status,) = status_records(state, TopicNames("mesh."), 1, sources, is_final=False)
    told = json.loads(status.value or "")
    assert told["sources"] == sources
    assert told["positions"] == {"mesh.a.in.g": {"1": 12}}
    assert (told["partitions"], told["offsets"]) == (1, 12)
    assert told["uncertified"] == 1
    assert told["waiting"][0]["source"] == "mesh.a.in.g/1"


def test_no_record_of_the_status_outgrows_what_a_broker_takes(state: State) -> None:
    """However many endpoints there are: else no judgement could be written, for good."""
    count = 20_000
    state.interest = SubscriptionHistory(queues=state.interest.queues)
    keys = [EndpointKey("a", f"an-application-of-some-team-{number:06}") for number in range(count)]
    for key in keys:
        state.interest.subscribe(key, "acme/>", Subscription(), 1)
        state.read[TopicPartition(f"mesh.a.ep.{key.name}", 0)] = 3
    told = [*status_records(state, TopicNames("mesh."), 1, {}, is_final=False)]
    assert max(len(one.value or "") for one in told) < 500_000
    *parts, status = (json.loads(one.value or "") for one in told)
    assert [one.key for one in told[:2]] == ["endpoints 1", "endpoints 2"]
    assert status["more_endpoints"] == len(parts)
    named = [*status["endpoints"], *(one for part in parts for one in part["endpoints"])]
    assert named == [*map(str, keys)]
    assert (status["partitions"], status["offsets"]) == (count + 1, 3 * count + 12)
    assert len(status["positions"]) == POSITIONS_MAX
    assert status["positions"][PLACE.topic] == {"1": 12}
