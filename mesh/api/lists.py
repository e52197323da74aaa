"""Lists in pages, and answers that need not be sent again."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from json import dumps
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from mesh.api.live import Snapshot
from mesh.errors import wrong_input

LIMIT_DEFAULT = 1_000
LIMIT_MAX = 10_000

Item = Mapping[str, Any]

At = Annotated[
    str,
    Query(
        max_length=64,
        description="A moment gone by: 2026-05-04T10:00:00Z, or 15m for a quarter of an hour ago.",
    ),
]
Cursor = Annotated[str, Query(max_length=8_000, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]


class ItemList(BaseModel):
    """One page of a list."""

    items: list[dict[str, Any]]
    next: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class KnownList(ItemList):
    """One page of what nodes report, as far as they can be asked."""

    unknown: list[str] = Field(description="Nodes that could not be asked.")


class RoleList(KnownList):
    """One page of roles."""

    ends_unknown: list[str] | None = Field(
        default=None,
        description="With `at`: nodes of which roles that were given up since may be lacking.",
    )


OF_LIST_BYTES = 6
"""Of a cursor: which list it is of."""

PAGING = ("cursor", "limit")
"""Parameters that all pages of one list need not share."""


def name_of_list(request: Request) -> str:
    """Return what distinguishes a list from others: its path, and what was asked of it."""
    asked = [pair for pair in request.query_params.multi_items() if pair[0] not in PAGING]
    return f"{request.url.path}?{urlencode(sorted(asked))}"


def page_of(
    items: Sequence[tuple[str, Item]], cursor: str, limit: int, name: str = ""
) -> dict[str, Any]:
    """Return one page of a list that is sorted by its keys.

    What comes or goes meanwhile moves no other item to another page.

    Args:
        items: (key, item), sorted.
        cursor: `next` of the page before; empty for the first one.
        limit: Items on a page; a few more if they have one key.
        name: Of the list: a cursor of another one would leave out items without a word.

    Raises:
        ConfigError: The cursor is of another list.
    """
    last = _key_in(cursor, name) if cursor else None
    rest = list(items) if last is None else [pair for pair in items if pair[0] > last]
    end = min(limit, len(rest))
    while 0 < end < len(rest) and rest[end][0] == rest[end - 1][0]:
        end += 1  # of one key all are on one page: the next begins behind it
    return {
        "items": [item for _, item in rest[:end]],
        "next": _cursor_of(rest[end - 1][0], name) if end < len(rest) else None,
    }


def _cursor_of(key: str, name: str) -> str:
    """Return what stands for the key that a page ended with."""
    said = key.encode("utf-8", "surrogatepass")
    return urlsafe_b64encode(_mark_of(said, name) + said).decode().rstrip("=")


def _key_in(cursor: str, name: str) -> str:
    try:
        read = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        mark, said = read[:OF_LIST_BYTES], read[OF_LIST_BYTES:]
        if mark == _mark_of(said, name):
            return said.decode("utf-8", "surrogatepass")
    except ValueError:
        pass
    text = (
        f"{cursor[:80]!r} is not a cursor of this list; "
        "give `next` of the page before, and ask the same"
    )
    raise wrong_input("cursor", text)


def _mark_of(said: bytes, name: str) -> bytes:
    list_key = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    return blake2b(said, key=list_key, digest_size=OF_LIST_BYTES).digest()


def is_known(tag: str, request: Request) -> bool:
    """Return whether a client has what this tag stands for. Source: RFC 9110, 13.1.2."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What part of a list somebody asks for, and as of when.

    Attributes:
        request: Theirs.
        at: A moment gone by; empty for now.
        cursor: `next` of the page before; empty for the first one.
        limit: Most items.
    """

    request: Request
    at: str
    cursor: str
    limit: int

    def at_ms(self, snapshot: Snapshot) -> int | None:
        """Return the moment, ms since 1970; None is now."""
        return snapshot.moment(self.at)

    def listed(
        self, found: Sequence[tuple[str, Item]], more: Mapping[str, Any] | None = None
    ) -> Response:
        """Return this page of a list as the answer, and what is told beside it."""
        page = page_of(found, self.cursor, self.limit, name_of_list(self.request))
        return answer(self.request, {**page, **(more or {})})


def _page(request: Request, at: At = "", cursor: Cursor = "", limit: Limit = LIMIT_DEFAULT) -> Page:
    return Page(request=request, at=at, cursor=cursor, limit=limit)


Paged = Annotated[Page, Depends(_page)]
"""Parameter of every path that answers with a list and knows the past."""
