"""The API keeps what its OpenAPI document says, whatever it is asked. Source: OpenAPI 3.1."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.component.api.conftest import Api

EXAMPLES = 12
"""For each path, drawn the same way in every run."""


def test_every_path_answers_as_described(api: Api) -> None:
    """No server error, only described statuses, types and documents.

    That a text is no time, subject or node is more than a schema can say, and 422 or 404 all the
    same.
    """
    schema = schemathesis.openapi.from_url(f"{api.url}/openapi.json")
    operations = [one.ok() for one in schema.exclude(path_regex="/events$").get_all_operations()]
    assert len(operations) >= 18

    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        ask()


def test_the_document_is_openapi_31_and_names_problem_documents(api: Api) -> None:
    """Errors are no pydantic lists."""
    document = api.ask("/openapi.json").data
    assert document["openapi"].startswith("3.1")
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for path in document["paths"].values():
        for operation in path.values():
            for code in ("401", "403", "404", "408", "413", "421", "422", "503"):
                described = operation["responses"][code]["content"]
                assert list(described) == ["application/problem+json"], code
    assert api.ask("/docs").status == 404
