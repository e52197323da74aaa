"""A table or a list of names that stands for an enum has a row for each member, and no other."""

from __future__ import annotations

from typing import get_args

import pytest

from mesh.cli.doctor_formats import DoctorOutput
from mesh.cli.render import Output
from mesh.config.queues import PolicyName
from mesh.config.topology_models import KindName, WhenFullName
from mesh.core.forwarding import RULES
from mesh.lab.checker import reach
from mesh.lab.steps import KINDS as STEPS
from mesh.lab.steps import ClassName, Step
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy
from mesh.model.reasons import SENTENCES, FilterCause, NotRead, NoWay, Reason
from mesh.model.topology import WhenFull, ZoneKind
from mesh.operate.audit.latest import KINDS
from streaming.audits import queues, ways
from streaming.audits.findings import FindingKind
from streaming.audits.rules import RULES as FINDING_RULES

ONE_HOP = [kind for kind, rule in RULES.items() if rule.one_hop]

PAIRS = {
    "zone kinds of topology files": (get_args(KindName), ZoneKind),
    "forwarding rules": (RULES, ZoneKind),
    "sentences of reasons": (SENTENCES, [*Reason, *FilterCause, *NoWay, *NotRead]),
    "what is done about limits": (get_args(WhenFullName), WhenFull),
    "policies of queues": (get_args(PolicyName), QueuePolicy),
    "classes in scenarios": (get_args(ClassName), MessageClass),
    "findings in scenarios": (KINDS, FindingKind),
    "rules of findings": (FINDING_RULES, FindingKind),
    "one-hop zones of the audit": (ways.ONE_HOP_KINDS, ONE_HOP),
    "one-hop zones of the checker": (reach.ONE_HOP_KINDS, ONE_HOP),
    "policies of the audit": ({*queues.SHARED, *queues.EACH} - {""}, QueuePolicy),
    "steps of scenarios": (STEPS.values(), get_args(Step)),
    "formats of the doctor": (set(map(str, DoctorOutput)) - {"nagios", "prometheus"}, Output),
}


@pytest.mark.parametrize("what", PAIRS)
def test_every_member_has_its_row(what: str) -> None:
    """What mypy cannot see: the keys of a mapping and the words of a file."""
    rows, members = PAIRS[what]
    assert set(map(str, rows)) == set(map(str, members))
