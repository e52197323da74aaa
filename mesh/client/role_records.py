"""An application's records for its node, checked before they are written.

A node only logs a record that it cannot take: an application that waits for a role, or for
replies, would never learn of it.
Spec: kafka.md 1; tree_layer 6.1, 8.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mesh.client.outbound import as_bytes, check_text
from mesh.errors import ProtocolError, SubjectError
from mesh.model.tree_apps import AppSaid, RoleKey, RoleRequest, SendWanted, content_bytes
from mesh.model.trees import Address, name_fault, tree_id
from mesh.wire.tree_apps import decode_roles, decode_said, encode_request, encode_said, role_key


def encoded_said(said: AppSaid, bytes_max: int) -> tuple[bytes, bytes]:
    """Return (key, value) of a record that any node accepts.

    Args:
        said: The record.
        bytes_max: How large its content may be.

    Raises:
        SubjectError: A name is not valid, or it carries more than a message may have.
        TypeError: Its content is text, not bytes.
    """
    for what, called in _TEXTS.items():
        check_text(called, getattr(said, what, ""))
    if isinstance(said, SendWanted):
        _check_send(said)
    carried = [what for what in ("payload", "header") if hasattr(said, what)]
    given: dict[str, Any] = {what: as_bytes(what, getattr(said, what)) for what in carried}
    said = replace(said, **given)
    if (size := content_bytes(said)) > bytes_max:
        raise SubjectError(f"{size} bytes; at most {bytes_max} are allowed")
    key, value = encode_said(said)
    try:
        decode_said("", key, value)
    except ProtocolError as error:
        raise SubjectError(str(error)) from error
    return key, value


_TEXTS = {"protocol": "protocol", "granted": "role"}
"""Fields that may be given as text, and the names callers use for them."""


def _check_send(said: SendWanted) -> None:
    for what, content in (("payload", said.payload), ("header", said.header)):
        if content is None:
            raise TypeError(f"{what} must be bytes, not None; write b'' for nothing")
    if not isinstance(said.iid, int):  # for a lost role `held` has none
        raise TypeError(f"iid must be the id of an instance, not {said.iid!r}")


def on_tree(tree: str, request: RoleRequest) -> RoleRequest:
    """Return a request with the UUID of its tree in place of the tree's name.

    Raises:
        SubjectError: A name is not valid, or the role is on another tree.
    """
    address = address_of(tree, request.address.role)
    if address_of(*request.address) != address:
        raise SubjectError(f"{tree!r} is not the tree of the role that is asked for")
    return replace(request, address=address)


def check_request(key: RoleKey, request: RoleRequest) -> None:
    """Refuse a request for a role that no node accepts.

    Raises:
        SubjectError: A name is not valid, or its options contradict each other.
    """
    check_text("protocol", request.protocol)
    try:
        decode_roles(role_key(key), encode_request(request))
    except ProtocolError as error:
        raise SubjectError(str(error)) from error


def address_of(tree: str, role: str) -> Address:
    """Return the address of a role on a tree, by name or UUID.

    Raises:
        SubjectError: A name is not valid.
        TypeError: It is not text.
    """
    check_text("tree", tree)
    check_text("role", role)
    if (fault := name_fault(role)) is not None:
        raise SubjectError(f"role: {fault}")
    try:
        return Address(tree_id(tree), role)
    except ValueError as error:
        raise SubjectError(f"tree: {error}") from error
