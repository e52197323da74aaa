"""What `mesh doctor --fix` fixes: missing topics and wrong settings, and nothing that deletes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mesh.errors import TransportError
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.topics import LOST_PROGRESS, is_lost_progress, wrong_settings
from mesh.transport.port import TopicSpec

_KEEPS = ("retention.ms", "retention.bytes")
_NEVER_LESS = frozenset({*_KEEPS, "delete.retention.ms", "max.message.bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One topic, before and after.

    Attributes:
        kafka, node: Its Kafka cluster, and the node that owns it.
        spec: The topic as it should be; `settings` has only those to set.
        before: The present settings, by key; empty for a topic that does not exist.
        is_new: Whether the topic is created.
        withheld: Why this is left to a person; empty if it is safe.
        refusal: The broker's error if it refused; empty before it was tried.
    """

    kafka: str
    node: str
    spec: TopicSpec
    before: Mapping[str, str | None]
    is_new: bool = False
    withheld: str = ""
    refusal: str = ""


def fixes_of(at: Examination) -> Iterator[Fix]:
    """Yield what should be fixed, safe or not; Kafka clusters that are away are left out."""
    for node, declared in at.topology.nodes.items():
        try:
            found, settings = at.infos(declared.kafka), at.settings(declared.kafka)
        except TransportError:
            continue  # reported by the checks of kafka
        for spec in at.topics_of(node):
            if spec.name in found:
                yield from _changes(declared.kafka, node, spec, settings.get(spec.name, {}))
            elif spec in at.node_topics(node):
                is_lost = is_lost_progress(at, node, spec.name, found)
                yield Fix(
                    kafka=declared.kafka,
                    node=node,
                    spec=spec,
                    before={},
                    is_new=True,
                    withheld=LOST_PROGRESS if is_lost else "",
                )


def _changes(kafka: str, node: str, spec: TopicSpec, found: Mapping[str, str]) -> Iterator[Fix]:
    wrong = wrong_settings(spec, found)
    risky = {key: why for key in wrong if (why := _risk(key, spec, found))}
    for is_safe in (True, False):
        keys = [key for key in wrong if (key not in risky) is is_safe]
        if keys:
            yield Fix(
                kafka=kafka,
                node=node,
                spec=replace(spec, settings={key: wrong[key][1] for key in keys}),
                before={key: wrong[key][0] for key in keys},
                withheld="" if is_safe else "; ".join(dict.fromkeys(risky[key] for key in keys)),
            )


def _risk(key: str, spec: TopicSpec, found: Mapping[str, str]) -> str:
    """Return why changing a setting is unsafe; empty if it deletes nothing."""
    wanted, is_set = spec.settings[key], found.get(key)
    if key in _NEVER_LESS and wanted != "-1" and (is_set == "-1" or _number(is_set) > int(wanted)):
        return "it would delete records that are kept now"
    if key == "cleanup.policy" and wanted != "compact":
        keeps_all = all(spec.settings.get(one) == "-1" for one in _KEEPS)
        return "" if keeps_all else "it would delete records by age or size"
    return ""


def _number(text: str | None) -> int:
    return int(text) if text is not None else 0


def mend(at: Examination, fixes: Sequence[Fix]) -> Iterator[Fix]:
    """Apply the safe fixes, and yield each with the broker's error if it refused."""
    for fix in fixes:
        refusal = ""
        admin = at.answering(fix.kafka).admin()
        try:
            if fix.is_new and not fix.withheld:
                admin.create([fix.spec])
            elif not fix.withheld:
                admin.change(fix.spec.name, fix.spec.settings)
        except TransportError as fault:
            refusal = str(fault)
        yield replace(fix, refusal=refusal)
    at.forget()
