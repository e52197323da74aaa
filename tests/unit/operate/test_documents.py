"""What scripts read, spelt out: new keys may come, none goes. Spec: lab.md, DESIGN 9."""

from __future__ import annotations

import json
from dataclasses import asdict

from mesh.config.published import published_document
from mesh.config.topology_file import topology_from_mapping
from mesh.model.queues import QueuePolicy
from mesh.operate.audit.proof import ProofProgress, ProofState
from mesh.operate.changes.in_force import TopologyInForce
from mesh.operate.changes.plan import Place, SettingChange, TopicsChange, make_plan
from mesh.operate.changes.plan_file import plan_document
from mesh.operate.changes.unread import Unread
from mesh.operate.doctor import Category, Check, Result
from mesh.operate.doctor.fixes import Fix
from mesh.operate.documents.doctor import doctor_document
from mesh.operate.documents.queues import queue_document
from mesh.operate.endpoints.queues import QueueMember, QueueStatus
from mesh.transport.port import TopicSpec

PAIR = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}},
    "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
}


def written(document: object) -> object:
    """Return a document as scripts read it."""
    return json.loads(json.dumps(document))


def test_a_queue_with_its_members() -> None:
    """A sum is null where one of its members is not known."""
    asked = QueueMember(
        node="a", kind="home", filters=["x", "y"], consumers=2, movers=1, waiting=7,
        is_counted=False, origins={"b": 7}, dead_letters=3,
    )  # fmt: skip
    silent = QueueMember(node="b", kind="proxy", filters=["x"])
    queue = QueueStatus(
        name="q", policy=QueuePolicy.HOME, home="a", members=[asked, silent], declared=None
    )
    assert written(queue_document(queue)) == {
        "queue": "q",
        "policy": "home",
        "home": "a",
        "is_declared": False,
        "max_deliveries": None,
        "max_age_s": None,
        "consumers": None,
        "waiting": None,
        "members": [
            {
                "node": "a",
                "kind": "home",
                "filters": ["x", "y"],
                "consumers": 2,
                "movers": 1,
                "waiting": 7,
                "is_counted": False,
                "origins": {"b": 7},
                "dead_letters": 3,
            },
            {
                "node": "b",
                "kind": "proxy",
                "filters": ["x"],
                "consumers": None,
                "movers": None,
                "waiting": None,
                "is_counted": True,
                "origins": {},
                "dead_letters": None,
            },
        ],
        "unknown": [],
    }


def test_what_the_doctor_found_and_mended() -> None:
    """Checks by category; a fix only where somebody asked for it."""
    checks = [
        Check(category=Category.KAFKA, description="k answers"),
        Check(
            category=Category.LINKS,
            description="a-b is up",
            result=Result.FAILED,
            error="a sees it down",
            hint="mend it",
            note="since noon",
            figures={"frames": 3},
        ),
    ]
    fix = Fix(
        kafka="k",
        node="a",
        spec=TopicSpec(name="mesh.a.in.g", partitions=4, settings={"retention.ms": "-1"}),
        before={"retention.ms": "7"},
    )
    document = doctor_document(checks, [fix], ok=False, dry_run=True)
    keys = ["description", "result", "hint", "error", "note", "figures"]
    assert [*document["categories"][0]["checks"][0]] == keys
    assert written(document) == {
        "ok": False,
        "categories": [
            {
                "name": "kafka",
                "checks": [
                    {
                        "description": "k answers",
                        "result": "ok",
                        "hint": "",
                        "error": "",
                        "note": "",
                        "figures": {},
                    }
                ],
            },
            {
                "name": "links",
                "checks": [
                    {
                        "description": "a-b is up",
                        "result": "failed",
                        "hint": "mend it",
                        "error": "a sees it down",
                        "note": "since noon",
                        "figures": {"frames": 3},
                    }
                ],
            },
        ],
        "repairs": [
            {
                "kafka": "k",
                "node": "a",
                "topic": "mesh.a.in.g",
                "is_new": False,
                "before": {"retention.ms": "7"},
                "after": {"retention.ms": "-1"},
                "outcome": "would be done",
                "reason": "",
            }
        ],
    }
    assert "repairs" not in doctor_document(checks, None, ok=True, dry_run=False)


def test_how_far_all_is_proven() -> None:
    """The page and `mesh status` begin with it."""
    proof = ProofProgress(
        state=ProofState.PARTIAL, text="Not all is proven yet", until_ms=5, heard_ms=9, open=0,
        doubts=("one", "two"),
    )  # fmt: skip
    assert written(asdict(proof)) == {
        "state": "partial",
        "text": "Not all is proven yet",
        "until_ms": 5,
        "heard_ms": 9,
        "open": 0,
        "doubts": ["one", "two"],
    }


def test_a_plan() -> None:
    """`mesh apply` takes it from `kind`, `base` and `document`."""
    before = topology_from_mapping(PAIR)
    after = topology_from_mapping({**PAIR, "nodes": {"a": {"realm": "here"}, "b": {}}})
    topics = TopicsChange(
        created=[Place("k", "new")],
        deleted=[Place("k", "old")],
        left=[Place("k", "kept")],
        changed=[SettingChange("k", "t", "retention.ms", "1", "2")],
    )
    unread = Unread(kafka="k", topic="old", reader="b", records=None, is_read=False)
    base = TopologyInForce(number=4, topology=before)
    plan = make_plan(base, after, topics, unread=[unread], queues=["q"])
    document = written(plan_document(plan, allow_delete=True))
    assert isinstance(document, dict)
    reach = document.pop("reach")
    assert list(reach) == ["sources", "moves", "guaranteed"]
    assert document == {
        "apiVersion": "mesh/v1",
        "kind": "Plan",
        "metadata": {"name": before.name},
        "base": {"version": 4, "hash": base.hash},
        "allow_delete": True,
        "changes": [
            {
                "what": "node",
                "name": "a",
                "action": "change",
                "attributes": [{"name": "realm", "before": None, "after": "here"}],
            }
        ],
        "restart": [],
        "topics": {
            "created": [{"kafka": "k", "topic": "new"}],
            "deleted": [{"kafka": "k", "topic": "old"}],
            "left": [{"kafka": "k", "topic": "kept"}],
            "changed": [
                {
                    "kafka": "k",
                    "topic": "t",
                    "setting": "retention.ms",
                    "before": "1",
                    "after": "2",
                }
            ],
        },
        "rights": {"needed": [], "unneeded": []},
        "queues": ["q"],
        "interest": None,
        "unread": [
            {"kafka": "k", "topic": "old", "reader": "b", "records": None, "is_read": False}
        ],
        "document": published_document(after),
    }
