"""Lists in pages, and answers that need not be sent again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from json import dumps
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

LIMIT_DEFAULT = 1_000
LIMIT_MAX = 10_000

Item = Mapping[str, Any]


class ItemList(BaseModel):
    """One page of a list."""

    items: list[dict[str, Any]]
    next: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class RoleList(ItemList):
    """One page of roles."""

    unknown: list[str] = Field(description="Nodes that could not be asked.")


def page_of(items: Sequence[tuple[str, Item]], cursor: str, limit: int) -> dict[str, Any]:
    """Return one page of a list that is sorted by its keys.

    What comes or goes meanwhile moves no other item to another page.

    Args:
        items: (key, item), sorted.
        cursor: The key that the page before ended with; empty for the first one.
        limit: Items on a page; a few more if they have one key.
    """
    rest = [pair for pair in items if pair[0] > cursor] if cursor else list(items)
    end = min(limit, len(rest))
    while 0 < end < len(rest) and rest[end][0] == rest[end - 1][0]:
        end += 1  # of one key all are on one page: the next begins behind it
    return {
        "items": [item for _, item in rest[:end]],
        "next": rest[end - 1][0] if end < len(rest) else None,
    }


def is_known(tag: str, request: Request) -> bool:
    """Say whether a client has what this tag stands for. Source: RFC 9110, 13.1.2."""
    known = request.headers.get("if-none-match", "").strip()
    return known == "*" or tag in known


def answer(request: Request, data: Mapping[str, Any]) -> Response:
    """Return a document, or that what the client has is still true."""
    body = dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    tag = f'"{blake2b(body.encode("utf-8", "replace"), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if is_known(tag, request):
        return Response(status_code=304, headers=headers)
    return Response(
        body.encode("utf-8", "replace"), media_type=JSONResponse.media_type, headers=headers
    )
