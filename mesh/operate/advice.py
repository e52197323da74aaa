"""What to do about what the auditor finds: a sentence and the commands that help, by kind."""

from __future__ import annotations

from collections.abc import Mapping

Entry = Mapping[str, object]

_ADVICE: Mapping[str, str] = {
    "loop": "Look at the zones of the links on the path: one of them takes messages back. "
    "Compare the topology of its ends.",
    "duplicate": "See where the second copy came from: another link, another producer, or the same "
    "record written twice.",
    "missing": "See how far the message came; the last hop that has it is where to look.",
    "unexpected": "See who subscribed when the message was published; somebody else may write to "
    "the endpoint's topic.",
    "corrupt": "Compare the delivery with the ingress record. Something that may write to the "
    "topics changed it on the way.",
    "gap": "See what the node says that it lacks; it goes on once somebody accepts the loss.",
    "disorder": "See whether the endpoint's topic has another writer.",
    "unplanned-path": "Compare the path with the zones in force; a node may work by another "
    "topology.",
    "unproven": "Nothing is wrong: records were deleted before the auditor had read them. Keep "
    "them longer, or the auditor running.",
    "split": "See which links are cut and whether their Kafka clusters answer.",
    "heal": "Nothing: the parts are joined again.",
}


def advice_for(finding: Entry) -> str:
    """Return what to do, in a sentence: the auditor's own word if it has one."""
    own = finding.get("advice")
    if isinstance(own, str) and own:
        return own
    return _ADVICE.get(str(finding.get("kind")), "See docs/audit.md for what this rests on.")


def commands_for(finding: Entry) -> list[str]:
    """Return commands that tell more about a finding."""
    kind, link = str(finding.get("kind")), finding.get("link")
    ids = finding.get("ids")
    found: list[str] = []
    if kind not in ("split", "heal", "unproven") and isinstance(ids, list) and ids:
        found.append(f"mesh trace {first_id(str(ids[0]))}")
    if kind in ("split", "gap") or (isinstance(link, str) and link):
        found.append("mesh links")
    if kind in ("gap", "missing", "split"):
        found.append("mesh doctor")
    found.append("mesh audit report")
    return found


def first_id(text: str) -> str:
    """Return the first message of an id or a range of them: `t/0/0/5` of `t/0/0/5-9`."""
    stem, slash, offsets = text.rpartition("/")
    return f"{stem}{slash}{offsets.partition('-')[0]}"
