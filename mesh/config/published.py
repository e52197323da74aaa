"""A topology as everybody may read it: without secrets, in one form, with a name for that form.

Spec: DESIGN 3, kafka.md 1 (`mesh.config`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from io import StringIO

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from mesh.config.kafka_options import SERVERS, published_options
from mesh.config.located import parse_document
from mesh.config.scalars import needs_quotes
from mesh.config.topology_file import topology_of
from mesh.config.topology_writer import topology_document
from mesh.model.topology import Topology

_NAME = "mesh.config"
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ./_-]*[A-Za-z0-9.])?")


def published_document(topology: Topology) -> Mapping[str, object]:
    """Return the document of a topology file as records carry it.

    Of Kafka clusters it says where they are and how clients of them are tuned. Credentials, and
    references to them, stay in the files of those who connect: see `PUBLISHED_OPTIONS`.
    """
    return topology_document(_published(topology))


def _published(topology: Topology) -> Topology:
    kafka = {
        name: replace(one, options=published_options(one.options))
        for name, one in topology.kafka.items()
    }
    return replace(topology, kafka=kafka)


def published_text(topology: Topology) -> str:
    """Return that document as one line of JSON."""
    return json.dumps(published_document(topology), separators=(",", ":"))


def differ_in_addresses_at_most(one: Topology, other: Topology) -> bool:
    """Return whether two topologies mean the same, wherever their Kafka clusters are.

    Addresses may come from the command line, and the order of a file's keys means nothing.
    """
    documents = [published_document(_without_addresses(topology)) for topology in (one, other)]
    return document_hash(documents[0]) == document_hash(documents[1])


def _without_addresses(topology: Topology) -> Topology:
    kafka = {
        name: replace(
            one, brokers=1, options={k: v for k, v in one.options.items() if k != SERVERS}
        )
        for name, one in topology.kafka.items()
    }
    return replace(topology, kafka=kafka)


def document_hash(document: Mapping[str, object]) -> str:
    """Return what names a document: 64 hexadecimal digits, whatever the order of its keys."""
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=16)
def published_topology(text: str) -> Topology:
    """Return the topology that a record describes; the same text is read many times in a change.

    Options that records do not carry are dropped, whoever wrote them: what a record refers to is
    looked up by nobody.

    Raises:
        ConfigError: It describes none that is known here; a newer version may have written it.
    """
    return _published(topology_of(parse_document(text.encode(), _NAME), is_in_force=True))


def as_yaml_file(document: Mapping[str, object]) -> str:
    """Return a document as the file that a person would write: one line per node and zone."""
    yaml = YAML()
    yaml.width = 1 << 20  # a zone stays on one line
    text = StringIO()
    yaml.dump(CommentedMap({key: _block(value, 2) for key, value in document.items()}), text)
    return text.getvalue()


def _block(value: object, depth: int) -> object:
    """Return a value with its upper `depth` levels one entry per line."""
    if depth and isinstance(value, Mapping) and value:
        return CommentedMap({_text(key): _block(one, depth - 1) for key, one in value.items()})
    if isinstance(value, list | tuple) and value:
        return CommentedSeq(map(_in_line, value))
    return _in_line(value)


def _in_line(value: object) -> object:
    found: CommentedMap | CommentedSeq
    if isinstance(value, Mapping):
        found = CommentedMap({_text(key): _in_line(one) for key, one in value.items()})
    elif isinstance(value, list | tuple):
        found = CommentedSeq(map(_in_line, value))
    else:
        return _text(value) if isinstance(value, str) else value
    found.fa.set_flow_style()
    return found


def _text(text: str) -> str:
    """Return text in quotes where it needs some: the library leaves too much unquoted in a line."""
    is_plain = _PLAIN.fullmatch(text) is not None and not needs_quotes(text)
    return text if is_plain else DoubleQuotedScalarString(text)
