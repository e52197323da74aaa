"""The AsyncAPI document says of the audit topics what the auditor makes and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import schemas
from mesh.model.control import Subscription
from mesh.model.topics import TopicNames
from streaming.audits.interest import EndpointKey
from streaming.connectors.sink import SinkRecord
from streaming.job.outputs import ENDPOINTS_MAX, TABLES, status_records
from streaming.job.state import State
from tests.unit.streaming.test_job import state, topology  # noqa: F401  # fixtures
from tests.unit.streaming.written import written

FOLDER = Path(schemas.__file__).parent / "audit"
BY_TABLE = sorted(TABLES)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads((FOLDER / "asyncapi.json").read_text(encoding="utf-8"))


def found(document: dict[str, Any], reference: dict[str, str]) -> dict[str, Any]:
    """Return what a reference within the document, or to a schema beside it, names."""
    where = reference["$ref"]
    if not where.startswith("#/"):
        return json.loads((FOLDER / where).read_text(encoding="utf-8"))
    part: Any = document
    for word in where.removeprefix("#/").split("/"):
        part = part[word]
    return part


def messages_of(document: dict[str, Any], table: str) -> list[dict[str, Any]]:
    told = document["channels"][table]["messages"].values()
    return [found(document, one) for one in told]


def is_told(document: dict[str, Any], output: SinkRecord) -> bool:
    """Return whether the document has a message of which key and value are like these."""
    value = None if output.value is None else json.loads(output.value)
    table = output.topic.removeprefix("mesh.audit.")
    for message in messages_of(document, table):
        payload = message["payload"]
        payload = found(document, payload) if "$ref" in payload else payload
        key = message["bindings"]["kafka"]["key"]
        if all(
            Draft202012Validator(schema).is_valid(one)
            for schema, one in ((payload, value), (key, output.key))
        ):
            return True
    return False


@pytest.mark.parametrize("table", BY_TABLE)
def test_each_topic_is_a_channel_as_the_auditor_makes_it(
    document: dict[str, Any], table: str
) -> None:
    channel = document["channels"][table]
    assert channel["address"] == "{prefix}audit." + table
    assert found(document, channel["parameters"]["prefix"])["default"] == TopicNames("mesh.").prefix
    kafka = channel["bindings"]["kafka"]
    assert kafka["partitions"] == 1
    settings = kafka["topicConfiguration"]
    told = {"cleanup.policy": ",".join(settings["cleanup.policy"])}
    if "retention.ms" in settings:
        told["retention.ms"] = str(settings["retention.ms"])
    assert told == TABLES[table]


def test_nothing_else_is_told(document: dict[str, Any]) -> None:
    """No channel without a topic, no operation or message that leads nowhere, no second home."""
    assert sorted(document["channels"]) == BY_TABLE
    operations = document["operations"].values()
    assert {one["action"] for one in operations} == {"send"}
    written = sorted(one["channel"]["$ref"].removeprefix("#/channels/") for one in operations)
    assert written == BY_TABLE
    payloads = [
        message["payload"]["$ref"]
        for table in BY_TABLE
        for message in messages_of(document, table)
        if "$ref" in message["payload"]
    ]
    assert sorted(payloads) == [f"./{table}.schema.json" for table in BY_TABLE]
    used = {
        one["$ref"].rpartition("/")[2]
        for channel in document["channels"].values()
        for one in channel["messages"].values()
    }
    assert used == set(document["components"]["messages"])


def test_what_is_written_is_a_message_of_its_channel(
    document: dict[str, Any],
    state: State,  # noqa: F811
) -> None:
    """Keys and values, also of what takes something back."""
    names = TopicNames("mesh.")
    for number in range(2 * ENDPOINTS_MAX):
        state.interest.subscribe(EndpointKey("a", f"e{number}"), "x", Subscription(), number)
    outputs = [*written(state, names), *status_records(state, names, 1, {}, is_final=True)]
    assert outputs[-2].key == "endpoints 2"
    assert None in [one.value for one in outputs]
    strange = [one for one in outputs if not is_told(document, one)]
    assert strange == []


def test_a_record_of_another_topic_is_none_of_its_messages(
    document: dict[str, Any],
    state: State,  # noqa: F811
) -> None:
    """Else the test above could not fail."""
    (status,) = status_records(state, TopicNames("mesh."), 1, {}, is_final=True)
    text = status.value
    assert not is_told(document, SinkRecord("mesh.audit.status", "elsewhere", text))
    assert not is_told(document, SinkRecord("mesh.audit.findings", "0" * 16, text))
    assert not is_told(document, SinkRecord("mesh.audit.certificates", "x", None))
