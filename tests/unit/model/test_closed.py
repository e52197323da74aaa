"""A table or a list of names that stands for an enum has a row for each member, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import pytest

from mesh.cli.doctor import doctor as doctor_command
from mesh.cli.doctor_formats import DoctorOutput
from mesh.cli.render import Output
from mesh.cli.status import status
from mesh.cli.subscribe import subscribe
from mesh.cli.zone import create
from mesh.config.queues import PolicyName
from mesh.config.topology_models import KindName, WhenFullName
from mesh.core import endpoints
from mesh.core.forwarding import RULES
from mesh.lab.checker import reach
from mesh.lab.schedule import LENGTHS_MS
from mesh.lab.steps import FAULTS_DEFAULT, ClassName, DrillName, FaultName
from mesh.model.control import EndpointKind, Stage
from mesh.model.facts import Fact
from mesh.model.findings import FindingKind
from mesh.model.frames import FrameKind, MessageClass
from mesh.model.inputs import IdentityRead, Input, NeighbourAwaited, OutboxFull, SourceStopped
from mesh.model.link_modes import CONDUCT, LinkMode
from mesh.model.queues import QueuePolicy
from mesh.model.reasons import SENTENCES, FilterCause, NotRead, NoWay, Reason
from mesh.model.topology import WhenFull, ZoneKind
from mesh.model.words import LinkWord
from mesh.node.machine import OF_NEIGHBOUR
from mesh.operate import doctor
from mesh.operate.audit import drills, heatmap
from mesh.operate.audit.drills import DrillKind
from mesh.operate.changes import arbiter, driver
from mesh.trees import profiles
from mesh.trees.settings import Profile
from mesh.wire import deliveries, header
from mesh.wire.keys import NEIGHBOUR_KEYS, NODE_KEYS
from mesh.wire.state import READERS
from mesh.worker.limits import endpoints as limits
from schemas import parsed
from streaming.audits import cases, queues, walks
from streaming.audits.rules import RULES as FINDING_RULES
from streaming.audits.subscriptions import POLICIES_BY_PROMISE
from streaming.tables import audited_keys


def words_of_help(command: Callable[..., object], option: str) -> set[str]:
    """Return the words that the help of an option enumerates, up to its first full sentence."""
    hint = get_type_hints(command, include_extras=True)[option]
    told = str(hint.__metadata__[0].help).partition(";")[0].rpartition(":")[2]
    return set(re.findall(r"[a-z-]+", told)) - {"or"}


def words_of_schema(schema: dict[str, Any], *path: str) -> set[str]:
    """Return the words that the schema of a field, found by the names on the way, enumerates."""
    field = schema
    for name in path:
        inner = field["type"]["items"] if "items" in field.get("type", "") else field
        [field] = (one for one in inner["fields"] if one["name"] == name)
    return set(re.findall(r"[a-z-]+", field["doc"])) - {"or"}


ONE_HOP = [kind for kind, rule in RULES.items() if rule.one_hop]

FACTS = [getattr(fact, "word", fact) for fact in get_args(Fact)]

OF_LANES_OR_NODES = (SourceStopped, IdentityRead, OutboxFull, NeighbourAwaited)
"""Inputs that name a neighbour and count whether or not there is a link to it just now."""

PAIRS = {
    "zone kinds of topology files": (get_args(KindName), ZoneKind),
    "forwarding rules": (RULES, ZoneKind),
    "sentences of reasons": (SENTENCES, [*Reason, *FilterCause, *NoWay, *NotRead]),
    "what is done about limits": (get_args(WhenFullName), WhenFull),
    "policies of queues": (get_args(PolicyName), QueuePolicy),
    "classes in scenarios": (get_args(ClassName), MessageClass),
    "rules of findings": (FINDING_RULES, FindingKind),
    "faults that a storm draws unless it says otherwise": (
        FAULTS_DEFAULT,
        set(get_args(FaultName)) - {"clock"},
    ),
    "zone kinds that the help of `zone create` names": (words_of_help(create, "kind"), ZoneKind),
    "policies that the help of `subscribe` names": (
        words_of_help(subscribe, "policy"),
        QueuePolicy,
    ),
    "formats that the help of every command names": (
        words_of_help(status, "output") - {"for", "people", "and", "scripts"},
        Output,
    ),
    "drills in scenarios": (get_args(DrillName), DrillKind),
    "texts of drills": (drills._TEXTS, DrillKind),
    "faults of storms": (LENGTHS_MS, get_args(FaultName)),
    "checks of the doctor": (doctor._CHECKS, doctor.Category),
    "categories that the doctor's help names": (
        words_of_help(doctor_command, "category"),
        doctor.Category,
    ),
    "one-hop zones of the audit": (walks.ONE_HOP_KINDS, ONE_HOP),
    "one-hop zones of the checker": (reach.ONE_HOP_KINDS, ONE_HOP),
    "what the audit says is wrong with single messages": (cases._TEXTS, get_args(cases.BlockFault)),
    "policies of the audit": ({*queues.SHARED, *queues.EACH} - {""}, QueuePolicy),
    "policies by what they promise": (endpoints.POLICIES, QueuePolicy),
    "policies by what they promise, of the audit": (POLICIES_BY_PROMISE, QueuePolicy),
    "classes by what they promise": (endpoints.CLASSES, MessageClass),
    "kinds by what they promise": (endpoints.KINDS, EndpointKind),
    "keys that the schema of progress lists": (
        re.findall(r"`(\w+)[^`]*`", parsed("progress")["doc"]),
        FACTS,
    ),
    "readers of facts": (READERS, FACTS),
    "facts that audits read, and others": (
        [one.word for one in (*audited_keys.READ_OF_LANES, *audited_keys.UNREAD_OF_LANES)],
        FACTS,
    ),
    "keys of nodes that audits read, and others": (
        [*audited_keys.READ_OF_NODES, *audited_keys.UNREAD_OF_NODES],
        NODE_KEYS,
    ),
    "keys of links that audits read, and others": (
        [*audited_keys.READ_OF_LINKS, *audited_keys.UNREAD_OF_LINKS],
        NEIGHBOUR_KEYS,
    ),
    "inputs about one neighbour": (
        {*OF_NEIGHBOUR, *OF_LANES_OR_NODES},
        [one for one in get_args(Input) if "neighbour" in one.__dataclass_fields__],
    ),
    "states of links that the schema of heartbeats names": (
        words_of_schema(parsed("heartbeat"), "links", "state"),
        set(LinkWord) - {LinkWord.PAUSED, LinkWord.UNKNOWN},
    ),
    "what the ends of a link do": (CONDUCT, LinkMode),
    "kinds of frames, by their number on the wire": (header._KINDS, FrameKind),
    "classes of deliveries, by their number on the wire": (deliveries._CLASSES, MessageClass),
    "profiles of the tree layer": (profiles._FLOODING, Profile),
    "which stage of a change follows which": (arbiter._AFTER, Stage),
    "what is told of the stages of a change": (driver._STAGES, Stage),
    "what each stage of a change is to reach": (driver._GOALS, Stage),
    "what is told of limits that are reached": (limits._THEN, WhenFull),
    "cells of the heat map that something was judged for": (
        heatmap._WORST,
        set(heatmap.Cell) - {heatmap.Cell.QUIET, heatmap.Cell.BLIND},
    ),
    "formats of the doctor": (set(map(str, DoctorOutput)) - {"nagios", "prometheus"}, Output),
}


@pytest.mark.parametrize("what", PAIRS)
def test_every_member_has_its_row(what: str) -> None:
    """What mypy cannot see: the keys of a mapping and the words of a file."""
    rows, members = PAIRS[what]
    assert set(map(str, rows)) == set(map(str, members))
