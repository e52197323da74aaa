"""The parts of the real form that need no broker."""

from __future__ import annotations

import ctypes
import gc
import logging
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from mesh.errors import (
    InvariantError,
    TransportDeniedError,
    TransportError,
    TransportFencedError,
    TransportRecordError,
    TransportUnavailableError,
    TransportUnknownError,
)
from mesh.model.patience import Patience
from mesh.transport.kafka import RealKafka, admin, asking
from mesh.transport.kafka.faults import Site, error_of, served, transport_error
from mesh.transport.kafka.health import Health
from mesh.transport.kafka.inspection import InspectingAdmin
from mesh.transport.kafka.logs import LOG, RepeatedLines
from mesh.transport.kafka.settings import member_settings, reader_settings, writer_settings
from mesh.transport.kafka.state import WriterState
from mesh.transport.kafka.transactions import Transactions
from mesh.worker.trees.service import HOLD_MS

SITE = Site("tokyo", "localhost:19092")
SILENT = {"bootstrap.servers": "localhost:1", "log_level": 0}
FATAL = KafkaError(KafkaError._FENCED, "fenced", fatal=True)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, TransportFencedError),
        (KafkaError.PRODUCER_FENCED, TransportFencedError),
        (KafkaError.INVALID_PRODUCER_EPOCH, TransportFencedError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, TransportDeniedError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TransportDeniedError),
        (KafkaError.MSG_SIZE_TOO_LARGE, TransportRecordError),
        (KafkaError.INVALID_RECORD, TransportRecordError),
        (KafkaError.POLICY_VIOLATION, TransportDeniedError),
        (KafkaError._AUTHENTICATION, TransportDeniedError),
        (KafkaError._INVALID_ARG, TransportDeniedError),
        (KafkaError._ALL_BROKERS_DOWN, TransportUnavailableError),
        (KafkaError._TIMED_OUT, TransportUnavailableError),
        (KafkaError._NOENT, TransportUnavailableError),
        (KafkaError.NOT_ENOUGH_REPLICAS, TransportUnavailableError),
        (KafkaError.UNKNOWN_LEADER_EPOCH, TransportUnavailableError),
        (KafkaError.OFFSET_NOT_AVAILABLE, TransportUnavailableError),
        (KafkaError.INVALID_TXN_STATE, TransportError),
    ],
)
def test_each_error_of_the_client_library_has_one_class(
    code: int, kind: type[TransportError]
) -> None:
    """And its text names the place, the action and the broker's words."""
    error = transport_error(SITE, "write x", KafkaError(code, "their words"))
    assert type(error) is kind
    assert str(error).startswith("Kafka cluster tokyo at localhost:19092: write x: ")
    assert "their words" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("why", "kind", "advice"),
    [
        (
            "mechanism handshake failed: Local: Broker transport failure",
            TransportUnavailableError,
            "check the address and that the brokers run",
        ),
        (
            "mechanism handshake failed: Local: Timed out",
            TransportUnavailableError,
            "check the address and that the brokers run",
        ),
        (
            "authentication error: invalid credentials",
            TransportDeniedError,
            "check the user, the password and the certificates",
        ),
    ],
)
def test_only_an_answer_refuses_an_identity(
    why: str, kind: type[TransportError], advice: str
) -> None:
    """A broker that dies, or is slow, amid the handshake has the client library say the same code."""
    error = KafkaError(KafkaError._AUTHENTICATION, f"sasl_ssl://k:9092/1: SASL {why}")
    told = transport_error(Site("k", "k:9092"), "read", error)
    assert (type(told), str(told).rpartition("; ")[2]) == (kind, advice)


def test_an_exception_without_an_error_is_still_mapped() -> None:
    """The client library sometimes raises plain texts."""
    assert "odd" in error_of(KafkaException("odd")).str()


PINNED_READER = {
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
}
PINNED_WRITER = {
    "acks": "all",
    "enable.idempotence": True,
    "statistics.interval.ms": 100,
    "transaction.timeout.ms": 15_000,
}


def test_the_operators_options_lie_between_ours() -> None:
    """They win over tuning and lose against what promises hang on. Spec: K15, R16."""
    options = {
        "fetch.wait.max.ms": "100",
        "isolation.level": "read_uncommitted",
        "acks": "1",
        "linger.ms": "0",
        "group.id": "x",
        "group.protocol": "consumer",
        "partition.assignment.strategy": "range",
        **dict.fromkeys((*PINNED_READER, *PINNED_WRITER), "0"),
    }
    reader = reader_settings(options, "mesh-a-r")
    assert (reader["fetch.wait.max.ms"], reader["isolation.level"]) == ("100", "read_committed")
    assert reader["group.id"] == reader["client.id"] == "mesh-a-r"
    assert "fetch.min.bytes" not in reader
    assert reader_settings({}, "mesh-a-r", gathers=True)["fetch.min.bytes"] > 100_000  # type: ignore[operator]
    writer = writer_settings(options, "mesh-a-w", "id", 500_000)
    assert (writer["linger.ms"], writer["acks"], writer["batch.size"]) == ("0", "all", 500_000)
    assert writer["message.timeout.ms"] <= writer["transaction.timeout.ms"]  # type: ignore[operator]
    assert "transactional.id" not in writer_settings(options, "mesh-a-w", None, 500_000)
    waits = ("linger.ms", "max.in.flight.requests.per.connection")
    prompt, plain = (
        writer_settings({}, "w", None, 500_000, is_prompt=one) for one in (True, False)
    )
    assert [prompt.get(one) for one in waits] == [0, 1]
    assert [plain.get(one) for one in waits] == [5, 1]
    assert waits[1] not in writer  # its transaction is aborted where something would be twice
    hasty = writer_settings({waits[1]: "5"}, "w", None, 500_000)
    assert hasty[waits[1]] == 1
    assert plain["message.timeout.ms"] < HOLD_MS < prompt["message.timeout.ms"]  # type: ignore[operator]
    patient = writer_settings({}, "w", None, 500_000, patience_ms=30_000)
    assert patient["message.timeout.ms"] == 30_000
    member = member_settings(options, "mesh-a-m", "mesh.a.lanes", 300)
    assert (member["group.id"], member["heartbeat.interval.ms"]) == ("mesh.a.lanes", 100)
    assert "group.instance.id" not in member
    stock = member_settings({}, "mesh-a-m", "mesh.a.lanes", 6_000)
    assert (stock["session.timeout.ms"], stock["heartbeat.interval.ms"]) == (6_000, 200)
    for one in (member, stock):
        assert one["partition.assignment.strategy"] == "cooperative-sticky"
        assert one["group.protocol"] == "classic"
    assert not any(made["allow.auto.create.topics"] for made in (reader, writer, member))
    assert {name: reader[name] for name in PINNED_READER} == PINNED_READER
    assert {name: writer[name] for name in PINNED_WRITER} == PINNED_WRITER


def test_a_wrong_option_is_named_in_one_line() -> None:
    """Making the cluster costs nothing; the first client says what is wrong."""
    kafka = RealKafka("tokyo", {"bootstrap.servers": "localhost:1", "no.such.option": "1"})
    for make in (kafka.admin, lambda: kafka.reader("r"), lambda: kafka.writer("w")):
        with pytest.raises(TransportDeniedError, match=r"tokyo at localhost:1: .*no\.such\.option"):
            make()
    kafka.close()


def test_an_admin_client_ends_with_whoever_had_it() -> None:
    """Its threads too: a cycle would leave them to the next look for cycles, in any process."""
    gc.disable()
    try:
        known = admin.KafkaAdmin(SITE, SILENT, 1.0)
        gone = weakref.ref(known)
        del known
        assert gone() is None
    finally:
        gc.enable()


def test_no_broker_is_named_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bounded time, however often it is asked."""
    for name in ("REQUEST_S", "DEADLINE_S"):
        monkeypatch.setattr(asking, name, 0.1)
    monkeypatch.setattr(asking, "IMPATIENT_S", Patience(0.1, 0.1))
    kafka = RealKafka("tokyo", {"bootstrap.servers": "127.0.0.1:1"})
    for _ in range(2):
        with pytest.raises(TransportUnavailableError, match=r"tokyo at 127\.0\.0\.1:1"):
            kafka.admin().describe(["t"])
    reader = kafka.reader("r")
    assert not reader.reachable()
    assert not reader.read(0, 10)
    kafka.close()


def test_a_change_that_nobody_answers_keeps_no_look_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker answers the requests of one connection in order, and a change may wait for a
    controller that stands still: it has connections, and a patience, of its own.
    """
    monkeypatch.setattr(asking, "IMPATIENT_S", Patience(0.1, asking.DEADLINE_S))
    known = InspectingAdmin(SITE, {"bootstrap.servers": "127.0.0.1:1"}, 0.2)
    looks = known._looks
    with pytest.raises(TransportUnavailableError):
        known.change("t", {"retention.ms": "1"})
    assert (known._changing().request_s, looks.request_s) == (0.1, 0.2)
    assert known._changing().client is not looks.client


class _Lonely:
    """A client whose broker was given up by the others: it answers that there is none.

    Asked about the Kafka cluster, the client library would end the process over that answer.
    """

    def poll(self, timeout: float) -> int:
        return 0

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(brokers={}, topics={}, cluster_id="abc")

    def describe_cluster(self, **_: object) -> None:
        pytest.fail("this would end the process")


NOT_ABLE = KafkaError(KafkaError._UNSUPPORTED_FEATURE)


class _Half(_Lonely):
    """A client that tells of groups and errors in turn, as often as it is asked."""

    def __init__(self, *errors: Sequence[object]) -> None:
        self._errors = list(errors)

    def list_consumer_groups(self, **_: object) -> Future[SimpleNamespace]:
        told: Future[SimpleNamespace] = Future()
        errors = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        groups = [] if errors else [SimpleNamespace(group_id="g")]
        told.set_result(SimpleNamespace(valid=groups, errors=errors))
        return told


def test_groups_are_those_of_all_brokers_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client library hands on what some said: nobody would read what the others' groups do."""
    late = KafkaError(KafkaError._TIMED_OUT)
    known = InspectingAdmin(SITE, SILENT, 0.2)
    known._looks.client = _Half([late], [])  # type: ignore[assignment]
    assert known.has_members("g")
    for fault, kind in ((late, TransportUnavailableError), (NOT_ABLE, TransportError)):
        known._looks.client = _Half([fault])  # type: ignore[assignment]
        for ask in (lambda: known.has_members("g"), lambda: known.consumed(["t"])):
            with pytest.raises(kind, match="list consumer groups"):
                ask()


def test_a_kafka_cluster_without_brokers_ends_no_process() -> None:
    known = admin.KafkaAdmin(SITE, SILENT, 1.0)
    known._looks.client = _Lonely()
    assert known.cluster_id() == "abc"
    with pytest.raises(TransportUnavailableError, match="no broker is up"):
        known.readers(["t"])


class _Producer:
    """Records calls; its commit ends with the errors given, and reports with what is `amid`."""

    def __init__(self, *errors: KafkaError) -> None:
        self.calls: list[str] = []
        self.errors = list(errors)
        self.amid: Callable[[], None] = lambda: None

    def poll(self, timeout: float) -> int:
        self.amid()
        return 0

    def flush(self, timeout: float) -> int:
        self.amid()
        return 0

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def commit_transaction(self, timeout: float) -> None:
        self.calls.append("commit")
        if self.errors:
            raise KafkaException(self.errors.pop(0))

    def abort_transaction(self, timeout: float) -> None:
        self.calls.append("abort")


def _begun(*errors: KafkaError) -> tuple[Transactions, WriterState, _Producer]:
    state, producer = WriterState(SITE, "w", "id"), _Producer(*errors)
    transactions = Transactions(producer, state)  # type: ignore[arg-type]
    transactions.begin()
    return transactions, state, producer


def test_a_request_that_timed_out_under_a_transaction_ends_the_writer() -> None:
    """The commit counts, but the next transaction needs a new epoch. Spec: reliability.md R3.

    Most losses reach only the statistics: `test_dirty_commits.py` has them on brokers.
    """
    transactions, state, producer = _begun()
    state.on_error(KafkaError(KafkaError._TRANSPORT, "b:1: Disconnected (after 9ms in state UP)"))
    transactions.commit()
    for _ in range(2):
        with pytest.raises(TransportUnknownError):
            transactions.begin()
    assert producer.calls == ["begin", "commit"]


def test_a_connection_never_made_disturbs_nothing() -> None:
    """A dead broker among the bootstrap servers must not make every writer a new one."""
    transactions, state, _ = _begun()
    refused = (
        "b:1: Connect to ipv4#1.2.3.4:1 failed: Connection refused (after 0ms in state CONNECT)"
    )
    state.on_error(KafkaError(KafkaError._TRANSPORT, refused))
    state.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    transactions.commit()
    transactions.begin()


def test_a_commit_is_repeated_while_that_is_right() -> None:
    """Retriable errors are not the caller's business."""
    slow = KafkaError(KafkaError._TIMED_OUT, "slow", retriable=True)
    transactions, _, producer = _begun(slow, slow)
    transactions.commit()
    assert producer.calls == ["begin", "commit", "commit", "commit"]


def test_who_waits_for_brokers_tells_that_it_lives_between_two_waits() -> None:
    """A flush that comes to nothing and the abort behind it may take longer than both deadlines."""
    producer, waits = _Producer(), list[str]()
    state = WriterState(SITE, "w", "id", lambda: waits.append(producer.calls[-1]))
    transactions = Transactions(producer, state)  # type: ignore[arg-type]
    transactions.begin()
    transactions.commit()
    assert waits == ["begin", "commit"]
    transactions.begin()
    state.refuse("t", KafkaError(KafkaError._MSG_TIMED_OUT))
    with pytest.raises(TransportError):
        transactions.commit()
    assert waits == ["begin", "commit", "begin", "abort"]


def test_an_abortable_error_aborts_and_the_writer_goes_on() -> None:
    """Nothing was committed."""
    broken = KafkaError(KafkaError.INVALID_PRODUCER_ID_MAPPING, "x", txn_requires_abort=True)
    transactions, _, producer = _begun(broken)
    with pytest.raises(TransportError, match="nothing was committed"):
        transactions.commit()
    transactions.begin()
    assert producer.calls == ["begin", "commit", "abort", "begin"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, TransportFencedError),
        (KafkaError.INVALID_TXN_STATE, TransportUnknownError),
    ],
)
def test_a_fatal_error_ends_the_writer(code: int, kind: type[TransportError]) -> None:
    """Every later call says the same, and nothing reaches the client library any more."""
    transactions, state, producer = _begun(KafkaError(code, "x", fatal=True))
    for call in (transactions.commit, transactions.begin, transactions.commit, transactions.abort):
        with pytest.raises(kind):
            call()
    with pytest.raises(kind):
        state.refuse("t", KafkaError(KafkaError._FATAL))
    assert producer.calls == ["begin", "commit"]


def _raise_bare(error: KafkaError) -> None:
    """Raise it as the client library does: Python itself refuses to raise what is no exception."""
    ctypes.pythonapi.PyErr_SetObject(ctypes.py_object(KafkaError), ctypes.py_object(error))


def _raise_garbled() -> None:
    raise SystemError("returned a result with an exception set")


def _raise_said() -> None:
    raise KafkaException(FATAL)


@pytest.mark.parametrize("amid", [partial(_raise_bare, FATAL), _raise_garbled, _raise_said])
def test_what_is_fatal_amid_reports_is_one_exception(amid: Callable[[], None]) -> None:
    """Also the one that is none, which would end the worker with all that it carries."""
    with pytest.raises(KafkaException):
        served(amid)
    transactions, _, producer = _begun(FATAL)
    producer.amid = amid
    with pytest.raises(TransportFencedError, match="a successor has it"):
        transactions.commit()


def test_what_a_callback_raises_itself_stays_what_it_is() -> None:
    def call() -> None:
        raise InvariantError("ours")

    with pytest.raises(InvariantError, match="ours"):
        served(call)


def test_a_refused_record_fails_the_commit_before_it_is_tried() -> None:
    """The first refusal that is for good is named, state errors that follow it are not."""
    transactions, state, producer = _begun()
    state.refuse("slow", KafkaError(KafkaError._MSG_TIMED_OUT))
    state.refuse("gone", KafkaError(KafkaError._UNKNOWN_TOPIC))
    state.refuse("fine", KafkaError(KafkaError._STATE))
    with pytest.raises(TransportDeniedError, match="topic gone") as refusal:
        transactions.commit()
    assert refusal.value.topics == ("gone",)
    assert producer.calls == ["begin", "abort"]
    assert state.failed == 0


def test_purged_records_are_no_failures() -> None:
    """They belong to a transaction that was aborted on purpose."""
    state = WriterState(SITE, "w", "id")
    state.refuse("t", KafkaError(KafkaError._PURGE_QUEUE))
    assert state.failed == 0
    with pytest.raises(InvariantError):
        state.refuse("t", KafkaError(KafkaError._STATE))


def test_health_asks_once_a_second_and_never_waits() -> None:
    """Unknown counts as away; a refusal is an answer; silence after an answer is away again."""
    now_s, asked = 100.0, list[Future[object]]()

    def ask() -> Future[object]:
        asked.append(Future())
        return asked[-1]

    health = Health(ask, lambda: now_s)
    assert not health.is_up()
    assert not health.is_up()
    assert len(asked) == 1
    asked[0].set_result("yes")
    assert health.is_up()
    now_s += 1
    assert health.is_up()
    assert len(asked) == 2
    asked[1].set_exception(KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)))
    assert health.is_up()
    now_s += 1
    assert health.is_up()
    asked[2].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert not health.is_up()


def test_the_same_log_line_comes_now_and_then() -> None:
    """A client that cannot connect says so ten times a second."""
    now_s = 0.0
    repeats = RepeatedLines(lambda: now_s)

    def passes(text: str) -> bool:
        record = logging.LogRecord("mesh.kafka", logging.ERROR, "", 0, text, None, None)
        return repeats.filter(record)

    assert passes("b:1 failed (after 0ms in state CONNECT)")
    assert not passes("b:1 failed (after 17ms in state CONNECT)")
    assert passes("b:2 failed (after 0ms in state CONNECT)")
    again = "GETPID [mesh-a#producer-1] [thrd:main]: Failed: Broker: Not coordinator: retrying"
    assert not passes(again)
    now_s = 30.0
    assert passes("b:1 failed (after 0ms in state CONNECT)")
    assert passes(again)
    assert not passes(again)


def test_the_client_library_never_writes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """Its lines go to a logger; without a handler they go nowhere."""
    where = "127.0.0.3:1"  # nobody else's in this process, whose clients may not be closed yet
    kafka = RealKafka("tokyo", {"bootstrap.servers": where})
    reader = kafka.reader("r")
    reader.read(0.3, 1)
    kafka.close()
    assert where not in capfd.readouterr().err


def test_no_text_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the client library repeats of its options."""
    secrets = {"sasl.password": "hunter2", "sasl.oauthbearer.config": "a=hunter2 b"}
    kafka = RealKafka("tokyo", {"bootstrap.servers": "h:1", **secrets})
    error = KafkaError(KafkaError._INVALID_ARG, "cannot use a=hunter2 b, nor hunter2")
    text = str(transport_error(kafka._site, "open", error))
    assert "cannot use ***, nor ***" in text
    assert "hunter2" not in repr(kafka._site)
    with caplog.at_level(logging.WARNING, LOG.name):  # commands in this process have raised it
        LOG.warning("login failed: %s", "hunter2")
    assert "login failed: ***" in caplog.text


@pytest.mark.parametrize(
    "waited", ["Failed while waiting for controller", "Timed out waiting for controller"]
)
def test_what_of_its_own_the_client_library_waited_for_is_not_told(waited: str) -> None:
    """Nobody who reads it has a controller."""
    said = str(transport_error(SITE, "describe topic", KafkaError(KafkaError._TIMED_OUT, waited)))
    assert "describe topic: no broker answers in time; check the address" in said
