"""A table or a list of names that stands for an enum has a row for each member, and no other."""

from __future__ import annotations

import re
from typing import get_args, get_type_hints

import pytest

from mesh.cli.doctor import doctor as doctor_command
from mesh.cli.doctor_formats import DoctorOutput
from mesh.cli.render import Output
from mesh.config.queues import PolicyName
from mesh.config.topology_models import KindName, WhenFullName
from mesh.core.forwarding import RULES
from mesh.lab.checker import reach
from mesh.lab.schedule import LENGTHS_MS
from mesh.lab.steps import KINDS as STEPS
from mesh.lab.steps import ClassName, DrillName, FaultName, Step
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy
from mesh.model.reasons import SENTENCES, FilterCause, NotRead, NoWay, Reason
from mesh.model.topology import WhenFull, ZoneKind
from mesh.operate import doctor
from mesh.operate.audit import drills
from mesh.operate.audit.drills import DrillKind
from mesh.operate.audit.latest import KINDS, NEWS
from streaming.audits import queues, ways
from streaming.audits.findings import FindingKind
from streaming.audits.rules import RULES as FINDING_RULES

CATEGORY_HELP = get_type_hints(doctor_command, include_extras=True)["category"].__metadata__[0].help
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
    "findings that are no faults": (
        NEWS,
        [one for one, rule in FINDING_RULES.items() if rule.is_news],
    ),
    "drills in scenarios": (get_args(DrillName), DrillKind),
    "texts of drills": (drills._TEXTS, DrillKind),
    "faults of storms": (LENGTHS_MS, get_args(FaultName)),
    "checks of the doctor": (doctor._CHECKS, doctor.Category),
    "categories that the doctor's help names": (
        set(re.findall(r"[a-z]+", CATEGORY_HELP)) - {"or", "repeatable"},
        doctor.Category,
    ),
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
