"""Every error as a problem document. Source: RFC 9457."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mesh.errors import ConfigError, MeshError, Problem, TransportError

MEDIA_TYPE = "application/problem+json"

NOT_FOUND_CODES = (
    *("UNKNOWN_NODE", "UNKNOWN_ENDPOINT", "UNKNOWN_QUEUE", "UNKNOWN_LINK"),
    *("UNKNOWN_TOPIC", "NOT_FOUND"),
)
"""Codes of problems that say that there is no such thing: 404, where others are 422."""


class ProblemItem(BaseModel):
    """One thing that is wrong, as commands print it with `-o json`."""

    code: str
    message: str
    where: str = ""
    walks: list[list[str]] = Field(default_factory=list)
    edit: list[Any] = Field(default_factory=list)


class ProblemDocument(BaseModel):
    """Why a request could not be answered."""

    model_config = ConfigDict(title="Problem")

    type: str = "about:blank"
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What is wrong and what to do, in one line.")
    problems: list[ProblemItem] = Field(default_factory=list)


RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {
        "description": text,
        "content": {
            MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}},
        },
    }
    for code, text in (
        (401, "No valid token"),
        (403, "A page of another site asks"),
        (404, "There is no such thing"),
        (408, "The body did not come in time"),
        (413, "The body is too large"),
        (421, "The server does not answer under that host name"),
        (422, "The request is wrong"),
        (503, "Kafka does not answer, or nothing was read yet"),
    )
}
"""What every path may answer besides its own; for the OpenAPI document."""


class RefusedError(MeshError):
    """A request that is not answered.

    Attributes:
        status: Of HTTP.
        code: A word for scripts.
    """

    def __init__(self, status: HTTPStatus, text: str, code: str = "") -> None:
        self.status = status
        self.code = code or status.name
        super().__init__(text)


def problem(status: int, detail: str, problems: Sequence[Problem] = ()) -> JSONResponse:
    """Return a problem document as the answer."""
    return JSONResponse(
        {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": " ".join(detail.split()),
            "problems": [one.as_mapping() for one in problems],
        },
        status_code=status,
        media_type=MEDIA_TYPE,
        headers={"Cache-Control": "no-store"},
    )


def answer_errors(app: FastAPI) -> None:
    """Have an application answer all errors in this form."""
    app.add_exception_handler(MeshError, _mesh_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _fault)


async def _mesh_error(_request: Request, error: Exception) -> JSONResponse:
    match error:
        case ConfigError(problems=problems):
            is_unknown = all(one.code in NOT_FOUND_CODES for one in problems)
            text = problems[0].line() if problems else str(error)
            return problem(404 if is_unknown else 422, text, problems)
        case RefusedError(status=status, code=code):
            return problem(status, str(error), [Problem(code=code, message=str(error))])
        case TransportError():
            message = " ".join(str(error).split())
            return problem(503, message, [Problem(code="TRANSPORT", message=message)])
        case _:
            return problem(500, f"{type(error).__name__}: {error}")


async def _fault(_request: Request, error: Exception) -> JSONResponse:
    """Answer where the fault is ours; what it was stands in the log of the server."""
    return problem(500, f"a fault of this server ({type(error).__name__}): its log says more")


async def _gone(_request: Request, _error: Exception) -> JSONResponse:
    """Answer who went away amid a question: that is no fault of anybody here."""
    return problem(400, "there is nobody to answer")


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [
        Problem(
            code="BAD_VALUE",
            message=str(one["msg"]),
            where=".".join(str(part) for part in one["loc"] if part not in ("query", "path")),
        )
        for one in error.errors()
    ]
    return problem(422, problems[0].line(), problems)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status, headers, text = HTTPStatus(error.status_code), error.headers or {}, str(error.detail)
    if status is HTTPStatus.NOT_FOUND:
        shown = request.url.path[:200]
        text = f"there is nothing at {shown}; /openapi.json tells what there is"
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        text = f"{request.method[:20]} is not what this path answers: {headers.get('Allow')}"
    answered = problem(status, text, [Problem(code=status.name, message=text)])
    answered.headers.update(headers)
    return answered
