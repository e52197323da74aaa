"""What the API answers: the documents of commands, lists in pages, the past, and one-line problems."""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.types import Message

from mesh.api.app import application
from mesh.api.guard import Access
from mesh.api.lists import page_of
from mesh.client import EndpointKind, QueuePolicy
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.model.topics import TopicNames
from mesh.model.topology import with_addresses
from mesh.transport.port import TopicSpec
from mesh.trees.settings import Settings
from tests.component.api.conftest import Api, MakeApi
from tests.component.cli.conftest import Run, run
from tests.component.in_memory_mesh import CHAIN, put_in_force

__all__ = ["run"]  # the fixture


def test_lists_wrap_what_commands_print(api: Api) -> None:
    """Nodes, zones, links and endpoints: one item each, sorted, with what only a watch knows."""
    api.mesh.subscribe("c", "all", ">")
    api.mesh.publish("a", "x/y")
    api.lives(2)
    assert [one["node"] for one in api.get("nodes")["items"]] == ["a", "b", "c"]
    links = api.get("links")["items"]
    assert [one["link"] for one in links] == ["a->b", "b->a", "b->c", "c->b"]
    assert {one["state"] for one in links} == {"up"}
    assert links[0]["per_s"]["guaranteed"] > 0
    assert links[1]["per_s"] == {"guaranteed": 0.0, "direct": 0.0}
    assert api.get("zones")["items"][0]["links"] == [["a", "b"], ["b", "c"]]
    (endpoint,) = api.get("endpoints")["items"]
    assert endpoint["endpoint"] == "c/all"
    assert endpoint["subscriptions"][0]["filter"] == ">"
    assert api.get("roles") == {"items": [], "next": None, "unknown": []}


def test_whoever_asks_first_finds_all_paths_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make them changes filters of warnings, which the threads of other servers rely on."""
    changed, change = [], warnings.catch_warnings.__enter__

    def enter(filters: warnings.catch_warnings) -> object:
        changed.append(filters)
        return change(filters)

    with monkeypatch.context() as patches:
        patches.setattr(warnings.catch_warnings, "__enter__", enter)
        assert len(api.get("nodes")["items"]) == 3
    assert changed == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_no_page_ends_among_items_of_one_key(limit: int) -> None:
    """One filter may be offered on a link as own and as foreign: both are told."""
    listed = [(key, {"number": number}) for number, key in enumerate("abbbc")]
    found, cursor = [], ""
    while True:
        page = page_of(listed, cursor, limit)
        found += [one["number"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert found == [0, 1, 2, 3, 4]


def test_a_list_comes_in_pages(api: Api) -> None:
    """`next` is the cursor of the next page, and null at the end."""
    first = api.get("nodes?limit=2")
    assert [one["node"] for one in first["items"]] == ["a", "b"]
    second = api.get(f"nodes?limit=2&cursor={first['next']}")
    assert [one["node"] for one in second["items"]] == ["c"]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("explain?subject=x/y&from=a", ("explain", "x/y", "--from", "a")),
        (
            "explain?subject=q&from=c&class=direct",
            ("explain", "q", "--from", "c", "--class", "direct"),
        ),
        ("route?from=a&to=c", ("route", "a", "c")),
        ("trace/mesh.a.in.g/0/0", ("trace", "mesh.a.in.g/0/0")),
        ("trace/mesh.a.in.g/0/9", ("trace", "mesh.a.in.g/0/9")),
    ],
)
def test_questions_are_answered_as_commands_answer_them(
    api: Api,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    path: str,
    arguments: tuple[str, ...],
) -> None:
    """The body is what `-o json` prints, whatever the exit code says."""
    mesh = api.mesh
    mesh.subscribe("c", "all", "x/>")
    mesh.publish("a", "x/y")
    api.lives(2)
    addresses = {"left": "left.test:9092", "right": "right.test:9092"}
    write_topology(with_addresses(mesh.topology, addresses), tmp_path / "chain.yaml")
    monkeypatch.setattr("mesh.view.connection.open_kafka", lambda *_a, **_o: mesh.world.kafka)
    monkeypatch.setattr("mesh.transport.clock.now_ms", mesh.now_ms)
    monkeypatch.setattr("mesh.transport.clock.pause", mesh.pause)
    ended = run(*arguments, "-f", str(tmp_path / "chain.yaml"), "-o", "json")
    assert ended.code in (0, 10)
    assert api.get(path) == ended.data


def test_a_plan_is_made_and_nothing_changes(api: Api, tmp_path: Path) -> None:
    """The topology file is the body; changes and none are both an answer."""
    moved = {**CHAIN, "zones": {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}}}
    write_topology(topology_from_mapping(moved, name="mesh"), tmp_path / "after.yaml")
    answer = api.ask("/api/v1/plan", (tmp_path / "after.yaml").read_bytes())
    assert answer.status == 200
    assert answer.data["kind"] == "Plan"
    assert [move["old"]["nodes"] for move in answer.data["reach"]["moves"]]
    api.lives(2)
    assert [one["link"] for one in api.get("links")["items"]] == ["a->b", "b->a", "b->c", "c->b"]


def test_an_illegal_plan_is_refused_with_walks_and_edit(api: Api, tmp_path: Path) -> None:
    """As `mesh validate` prints it, and the file is called as it was sent."""
    links = [["a", "b"], ["b", "c"], ["a", "c"]]
    ring = {**CHAIN, "zones": {"Z": {"kind": "multi-hop", "links": links}}}
    write_topology(topology_from_mapping(ring, name="mesh"), tmp_path / "ring.yaml")
    answer = api.ask("/api/v1/plan", (tmp_path / "ring.yaml").read_bytes())
    assert answer.status == 422
    (problem,) = answer.data["problems"]
    assert len(problem["walks"]) == 2
    assert problem["edit"][0]["op"] == "remove"
    assert "/tmp" not in answer.body.decode()
    assert "proposed.yaml" in answer.data["detail"]


def test_a_refused_plan_advises_to_take_out_what_the_file_adds(
    api: Api, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the command does, and not a link of the mesh that runs: that would be as small an edit."""
    links = [["a", "b"], ["b", "c"], ["a", "c"]]
    ring = {**CHAIN, "zones": {"Z": {"kind": "multi-hop", "links": links}}}
    write_topology(topology_from_mapping(ring, name="mesh"), tmp_path / "ring.yaml")
    addresses = {"left": "left.test:9092", "right": "right.test:9092"}
    file = tmp_path / "mesh.yaml"
    write_topology(with_addresses(api.mesh.topology, addresses), file)
    monkeypatch.setattr("mesh.view.connection.open_kafka", lambda *_a, **_o: api.mesh.world.kafka)
    told = run("plan", str(tmp_path / "ring.yaml"), "-f", str(file), "-o", "json").data
    answer = api.ask("/api/v1/plan", (tmp_path / "ring.yaml").read_bytes())
    [problem], [said] = answer.data["problems"], told["problems"]
    assert problem["edit"] == said["edit"]
    assert problem["edit"][0]["link"] == ["a", "c"]


def test_a_link_tells_what_it_carries_for_whom_and_what_not(api: Api) -> None:
    """Filters with the endpoints behind it, and each reason with its sentence and count."""
    api.mesh.subscribe("c", "all", "x/>")
    api.mesh.publish("a", "x/y")
    api.mesh.publish("a", "nobody")
    api.lives(2)
    link = api.get("links/a/b")
    assert [(one["filter"], one["for"]) for one in link["carries"]] == [("x/>", ["c/all"])]
    assert [(one["reason"], one["messages"], one["text"]) for one in link["refused"]] == [
        ("no_interest", 1, "nobody behind this link wants it")
    ]
    assert "mesh link pause a b" in link["commands"]
    assert api.get("nodes/c")["ends"][0]["endpoint"] == "c/all"


def test_a_link_tells_how_canaries_fare_on_it(api_of: MakeApi) -> None:
    """Of a moment gone by that is not on record, and one that was taken back is none."""
    audit = {"kafka": "left", "canary": True}
    api = api_of(topology_from_mapping({**CHAIN, "audit": audit}))
    assert (api.get("links/a/b")["canaries"], api.get("links/a/b")["canary"]) == (True, None)
    kafka = api.mesh.world.kafka["left"]
    kafka.admin().create([TopicSpec(name="mesh.audit.canaries", partitions=1, settings={})])
    writer, said = kafka.writer("auditor"), {"way": "a->b", "sent": 2, "arrived": 1, "lost": 1}
    for value, found in ((json.dumps({**said, "latency_ms": 41.5}).encode(), 41.5), (None, None)):
        with api.turn:
            writer.produce("mesh.audit.canaries", value, b"a->b", 0)
            writer.flush()
        api.lives(2)
        assert (api.get("links/a/b")["canary"] or {}).get("latency_ms") == found
        assert api.get("links/b/a")["canary"] is None
        assert api.get("links/a/b?at=1s")["canary"] is None


def test_a_link_carries_what_is_sent_to_a_member_of_a_queue(api: Api) -> None:
    """Its address is no filter of anybody: the member it is for is named."""
    options = {"kind": EndpointKind.QUEUE, "policy": QueuePolicy.ANY}
    for node in ("a", "c"):
        api.mesh.subscribe(node, "jobs", "work/>", **options)
    api.lives(3)
    told = {one["filter"]: one for one in api.get("links/a/b")["carries"]}
    member = told["$queue/jobs/c"]
    assert (member["queue"], member["for"]) == ("jobs", ["c/jobs"])


def test_a_request_sees_one_topology(api: Api) -> None:
    """One that comes into force while a link is described is not mixed with the former."""
    api.mesh.subscribe("c", "all", "x/>")
    api.mesh.publish("a", "nobody")
    api.lives(2)
    links = {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}}
    after = topology_from_mapping({**CHAIN, "zones": links}, name="mesh")
    watch = api.live.watch

    class Switching(dict[Any, Any]):
        """Flows of links; whoever looks at one first finds the topology changed."""

        def get(self, key: Any, default: Any = None) -> Any:
            watch.traffic.links = dict(self)
            put_in_force(1, after, api.mesh.world.kafka)
            while watch.seen.in_force.number == 0:
                api.mesh.pause(1)
                api.live.look()
            return super().get(key, default)

    watch.traffic.links = Switching(watch.traffic.links)
    told = api.get("links/a/b")
    assert watch.seen.in_force.number == 1
    assert [one["for"] for one in told["carries"]] == [["c/all"]]
    assert [one["reason"] for one in told["refused"]] == ["no_interest"]
    assert api.ask("/api/v1/links/a/b").status == 404


def test_interest_is_found_by_subject_and_by_filter(api: Api) -> None:
    """A subject finds the filters that select it; a filter those that overlap with it."""
    api.mesh.subscribe("c", "eu", "orders/eu/>")
    api.mesh.subscribe("c", "all", "orders/>")
    api.lives(1)

    def found(text: str) -> set[str]:
        rows = api.get(f"interest?node=c&filter={quote(text)}")["items"]
        return {one["filter"] for one in rows if one["by"] == "endpoint"}

    assert found("orders/us/1") == {"orders/>"}
    assert found("orders/*/1") == {"orders/>", "orders/eu/>"}
    assert found("other") == set()


def test_the_past_is_told_as_far_as_it_is_on_record(api: Api) -> None:
    """A state of then is shown, and what nobody noted is null and never what holds now."""
    api.mesh.subscribe("c", "all", ">")
    api.lives(3)
    api.mesh.world.kill("b")
    api.lives(70)
    states = {one["node"]: one["state"] for one in api.get("nodes?at=60s")["items"]}
    assert states["b"] == "down"
    assert {one["node"]: one["state"] for one in api.get("nodes?at=72s")["items"]}["b"] == "up"
    before = api.get("links?at=15m")["items"][0]
    assert (before["state"], before["per_s"]) == (None, None)
    assert api.get("mesh?at=1m")["is_now"] is False


def test_endpoints_of_then_are_those_that_were_there(api: Api) -> None:
    """One that came later is not; what a link carried is told of then, too."""
    api.mesh.subscribe("c", "old", "acme/>")
    api.lives(70)
    api.mesh.subscribe("c", "new", "acme/>")
    api.lives(2)
    then, now = api.get("endpoints?at=30s")["items"], api.get("endpoints")["items"]
    assert [one["name"] for one in then] == ["old"]
    assert [one["name"] for one in now] == ["new", "old"]
    assert [one["name"] for one in api.get("nodes/c?at=30s")["ends"]] == ["old"]
    carried = api.get("links/a/b?at=30s")
    assert [one["for"] for one in carried["carries"]] == [["c/old"]]
    assert (carried["refused"], carried["counted_since_ms"]) == ([], None)
    assert [one["endpoint"] for one in api.get("audit/heatmap?at=30s")["rows"]] == ["c/old"]


def test_what_has_not_changed_is_not_sent_again(api: Api) -> None:
    """ETag and If-None-Match."""
    first = api.ask("/api/v1/zones")
    again = api.ask("/api/v1/zones", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("explain?subject=a//b&from=a", 422, "empty level"),
        ("explain?subject=a/b&from=zz", 404, "no node is called 'zz'"),
        ("explain?from=a", 422, "subject"),
        ("explain?subject=a&from=a&class=fast", 422, "class"),
        ("explain?subject=a&from=a&header=x", 422, "NAME=VALUE"),
        ("route?from=a&to=a", 422, "where it starts"),
        ("route?from=a&to=q", 404, "no node"),
        ("trace/nonsense", 422, "not a message"),
        ("trace/mesh.zz.in.g/0/1", 404, "not an ingress topic"),
        ("trace/mesh.a.in.g/0/9999999999999999999", 422, "is not a message"),
        ("nodes/", 404, "there is nothing at"),
        ("interest?filter=%3E/a", 422, ">"),
        ("interest?node=zz", 404, "no node"),
        ("nodes?at=2999-01-01T00:00:00Z", 422, "in the future"),
        ("nodes?at=yesterday", 422, "not a time"),
        ("nodes?limit=0", 422, "limit"),
        ("nodes?limt=5", 422, "did you mean limit?"),
        ("interest?filtre=x", 422, "is not a parameter of this path"),
        ("roles/routes?at=5m", 422, "for now only"),
        ("zones?at=2999-01-01T00:00:00Z", 422, "in the future"),
        ("roles?at=2999-01-01", 422, "in the future"),
        ("queues?at=soon", 422, "not a time"),
        ("trace/mesh.a.in.g/0/1?at=2999-01-01", 422, "in the future"),
        ("nodes?cursor=a", 422, "is not a cursor of this list"),
        ("nodes?cursor=%00", 422, "is not a cursor of this list"),
        ("explain?subject=%ff&from=a", 422, "subject: is not UTF-8"),
        ("interest?filter=x%c3", 422, "filter: is not UTF-8"),
        ("nodes?%ff=x", 422, "is not UTF-8"),
        ("nodes/zz", 404, "no node"),
        ("links/a/c", 404, "no link leads from a to c"),
        ("dead-letters?node=zz", 404, "no node"),
        ("dead-letters?node=a&queue=zz", 404, "no queue"),
        ("certificates?from=2999-01-01", 422, "in the future"),
        ("findings?kind=duplicat", 422, "no finding 'duplicat'; did you mean duplicate?"),
        ("audit/heatmap?minutes=100000", 422, "minutes"),
        ("nothing", 404, "there is nothing at"),
        ("nodes/%3Cimg%20src=x%3E", 404, "no node"),
    ],
)
def test_what_is_wrong_is_a_problem_in_one_line(
    api: Api, path: str, status: int, says: str
) -> None:
    """RFC 9457 for every error."""
    assert says in api.refused(f"/api/v1/{path}", status)


def test_dead_letters_come_in_the_order_of_their_log(api: Api) -> None:
    writer = api.mesh.world.kafka["left"].writer("stranger")
    for number in range(12):
        writer.produce("mesh.a.in.g", b"%d" % number, None, 0)  # no subject
    writer.flush()
    api.lives(3)
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(f"dead-letters?node=a&limit=5&cursor={quote(cursor)}")
        found += [int(one["place"].rpartition("@")[2]) for one in page["items"]]
        cursor = page["next"]
    assert len(found) == 12
    assert found == sorted(found)


def test_dead_letters_of_a_queue_that_nobody_subscribes_any_more_are_told(api: Api) -> None:
    """As `mesh dlq --queue` does."""
    topic = TopicNames("mesh.").queue_letters("a", "jobs")
    api.mesh.world.kafka["left"].admin().create([TopicSpec(name=topic, partitions=4)])
    assert api.get("dead-letters?node=a&queue=jobs")["items"] == []


def test_nothing_can_be_changed(api: Api) -> None:
    """Other methods than asking are refused, and a body that is too large is not read."""
    assert "POST is not what this path answers: GET" in api.refused("/api/v1/nodes", 405, b"{}")
    [problem] = api.ask("/api/v1/nothing").data["problems"]
    assert problem["code"] == "NOT_FOUND"
    text = api.refused("/api/v1/plan", 413, b"x" * 2_000_000)
    assert "at most" in text
    assert "kind" in api.refused("/api/v1/plan", 422, b"kind: Scenario")
    assert api.refused("/api/v1/plan", 422, b"\xff\xfe\x00")


def _planned_by(api: Api, first: Message) -> int:
    """Return the status of what somebody is answered who sends this of a plan, and then nothing."""
    messages, told = [first], list[int]()

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.append(message["status"])

    path = {"path": "/api/v1/plan", "raw_path": b"/api/v1/plan", "query_string": b""}
    scope = {"type": "http", "method": "POST", "headers": [(b"host", b"localhost")], **path}
    asyncio.run(application(api.live, api.feed, Access(), has_page=False)(scope, receive, send))
    return told[0]


def test_who_goes_away_amid_a_question_is_no_fault_of_the_server(api: Api) -> None:
    """It is answered like everybody, and no traceback stands in the log."""
    assert _planned_by(api, {"type": "http.disconnect"}) == 400


def test_a_body_that_never_ends_holds_nobody_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends a byte and waits would else take the place of somebody who asks."""
    monkeypatch.setattr("mesh.api.routes.BODY_WITHIN_S", 0.01)
    assert _planned_by(api, {"type": "http.request", "body": b"k", "more_body": True}) == 408


def test_before_the_mesh_was_read_nothing_is_answered(api_of: MakeApi) -> None:
    """503, and the probes tell."""
    api = api_of(topology_from_mapping(CHAIN), begun=False)
    assert "being read" in api.refused("/api/v1/nodes", 503)
    assert api.ask("/startupz").status == 503
    api.live.look()
    assert api.ask("/startupz").status == 200


def test_a_kafka_cluster_that_is_down_is_named_and_the_rest_is_shown(api: Api) -> None:
    """Its nodes are unreachable; what asks it says so, and nothing else fails."""
    api.lives(2)
    api.mesh.world.kafka["right"].available = False
    api.lives(8)
    kafka = {one["name"]: one for one in api.get("mesh")["kafka"]}
    assert kafka["left"]["answers"]
    assert not kafka["right"]["answers"]
    assert kafka["right"]["fault"]
    states = {one["node"]: one["state"] for one in api.get("nodes")["items"]}
    assert states == {"a": "up", "b": "unreachable", "c": "unreachable"}
    rates = {one["link"]: one["per_s"] for one in api.get("links")["items"]}
    assert rates["b->c"] is None
    assert rates["a->b"] is not None
    assert [one["published"] is None for one in api.get("nodes")["items"]] == [False, True, True]
    assert api.get("explain?subject=x&from=a")["unknown"] == ["b", "c"]
    assert api.get("roles")["unknown"] == ["b", "c"]
    assert api.get("interest")["unknown"] == ["b", "c"]
    assert api.get("interest?node=a")["unknown"] == ["b"]
    assert api.get("links/b/a")["is_carried_known"]
    assert not api.get("links/a/b")["is_carried_known"]
    assert [api.get(f"nodes/{node}?at=0s")["ends_known"] for node in "ab"] == [True, False]
    assert api.get("nodes/b")["ends_known"]
    assert api.refused("/api/v1/dead-letters?node=b", 503)
    for path in ("links", "zones", "endpoints", "queues", "interest", "findings", "audit"):
        api.get(path)


def test_routes_to_roles_are_told_without_asking_anybody(api_of: MakeApi) -> None:
    """Per node the next link, since when and by what; of one tree, role or node alone."""
    api = api_of(topology_from_mapping(CHAIN), trees=Settings())
    api.lives(5)
    with api.turn:
        host = api.mesh.client("c").roles("desk", lease_s=600).open()
        host.add("desk-7", "pricing")
        host.add("desk-8", "risk")
    api.lives(4)
    told = api.get("roles/routes?tree=desk-7&role=pricing")
    assert [(one["node"], one["link"], one["to"]) for one in told["items"]] == [
        ("a", "b", "c"),
        ("b", "c", "c"),
        ("c", "", "c"),
    ]
    assert told["unknown"] == []
    assert {one["reason"] for one in told["items"]} == {"published", "here"}
    assert told["items"][0]["since_ms"] <= api.mesh.now_ms()
    both = api.get("roles/routes?node=a")["items"]
    assert sorted(one["role"] for one in both) == ["pricing", "risk"]
    page = api.get("roles/routes?limit=1")
    assert len(page["items"]) == 1
    assert page["next"]
    assert "no node is called" in api.refused("/api/v1/roles/routes?node=zz", 404)
    assert "role" in api.refused("/api/v1/roles/routes?role=a%20b", 422)
    assert "tree" in api.refused("/api/v1/roles/routes?tree=a%0Ab", 422)
    assert "not on record" in api.refused("/api/v1/roles/routes?at=1m", 422)


def test_a_fault_of_the_server_is_a_problem_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; the server goes on."""

    def fails(*_: object) -> None:
        raise KeyError("b->c")

    monkeypatch.setattr("mesh.api.details.mesh_document", fails)
    assert "a fault of this server (KeyError)" in api.refused("/api/v1/mesh", 500)
    api.get("nodes")


def test_a_look_that_fails_is_not_the_last(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was: the next one sees the mesh as it is then."""

    def fails() -> None:
        raise KeyError("b->c")

    with monkeypatch.context() as patched:
        patched.setattr(api.live.watch, "look", fails)
        api.live.look()
    api.mesh.subscribe("c", "all", ">")
    api.lives(1)
    assert [one["name"] for one in api.get("endpoints")["items"]] == ["all"]


def test_hostile_names_are_only_data(api: Api) -> None:
    """Markup and odd letters in a subject come back as they are, in JSON."""
    subject = '<img src=x onerror="alert(1)"/\u202eabc'
    told = api.get(f"explain?subject={quote(subject, safe='')}&from=a")
    assert told["subject"] == subject
    raw = api.ask("/api/v1/nodes/%3Cscript%3E")
    assert raw.headers["content-type"] == "application/problem+json"
    assert raw.headers["x-content-type-options"] == "nosniff"


def test_json_of_answers_is_compact_utf8(api: Api) -> None:
    """Answers are JSON in UTF-8."""
    answer = api.ask("/api/v1/mesh")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body)["mesh"] == "mesh"


def test_the_heatmap_tells_how_busy_each_minute_was(api: Api) -> None:
    """By the nodes' own account, beside what the auditor says; null where nobody counted."""
    api.mesh.subscribe("c", "e", "acme/>")
    api.lives(3)
    for _ in range(7):
        api.mesh.publish("a", "acme/x")
    api.lives(3)
    [row] = api.get("audit/heatmap?minutes=30")["rows"]
    assert row["endpoint"] == "c/e"
    assert len(row["messages"]) == len(row["cells"]) == 30
    assert sum(one or 0 for one in row["messages"]) == 7
