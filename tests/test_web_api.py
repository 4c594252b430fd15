"""REST routes that are derived from operations: each declared route is there, with the arguments of its operation."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from opilio import Collection
from opilio.crawl.operations import OPERATIONS, READS, Operation
from opilio.web.api import ANSWERS, PREFIX, body_model
from opilio.web.app import create_app
from opilio.web.security import Security
from opilio.web.shelf import Shelf
from web_portal import Portal

ROUTED = {name: operation for name, operation in OPERATIONS.items() if operation.rest is not None}
EACH = pytest.mark.parametrize("operation", ROUTED.values(), ids=ROUTED)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What /api/openapi.json says."""
    openapi: dict[str, Any] = create_app(Shelf(tmp_path_factory.mktemp("shelf")), Security()).openapi()
    return openapi


@EACH
def test_each_declared_route_is_there(operation: Operation[..., Any], described: dict[str, Any]) -> None:
    """Under its path and tag, with the description and the arguments of the operation; reads by GET, others by POST."""
    assert operation.rest is not None and operation.is_public
    assert operation.rest.method == ("GET" if operation.access is READS else "POST")
    found = described["paths"][PREFIX + operation.rest.path][operation.rest.method.lower()]
    assert found["tags"] == [operation.rest.tag]
    assert found["description"] == operation.doc
    if operation.access is READS:
        fields = {one["name"]: one["required"] for one in found["parameters"] if one["in"] == "query"}
    elif operation.parameters:
        name = found["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        schema = described["components"]["schemas"][name]
        fields = {field: field in schema.get("required", []) for field in schema["properties"]}
    else:
        assert "requestBody" not in found
        fields = {}
    assert fields == {name: one.default is inspect.Parameter.empty for name, one in operation.parameters.items()}


def test_bounds_and_choices_come_from_the_declaration(described: dict[str, Any]) -> None:
    """What a declaration says of an argument is checked by REST: bounds of numbers, the few values of a verdict."""
    [top] = [one for one in described["paths"][f"{PREFIX}hosts"]["get"]["parameters"] if one["name"] == "top"]
    assert (top["schema"]["minimum"], top["schema"]["maximum"]) == (1, 1000)
    verdict = body_model(OPERATIONS["judge"]).model_json_schema()["properties"]["verdict"]
    assert verdict["enum"] == ["yes", "no", "unsure", "skip"]


def test_sentences_are_for_operations_that_have_a_route() -> None:
    """No sentence is left over from an operation that REST does not offer; reads answer their result as it is."""
    assert set(ANSWERS) <= set(ROUTED)
    assert all(ROUTED[name].access is not READS for name in ANSWERS)


def test_routes_answer_like_python(tmp_path: Path) -> None:
    """A route gives the result of the method; a change needs the token; a wrong value is refused before it is tried."""
    (tmp_path / "seeds.txt").write_text("http://nobody.test/")
    collection = Collection.create(tmp_path / "birds", seeds=tmp_path / "seeds.txt", query="owl")
    api = "/api/c/birds"
    with Portal(tmp_path) as portal:
        assert portal.get(f"{api}/topics") == (200, collection.topics())
        assert portal.get(f"{api}/hosts", top=3) == (200, collection.hosts(3))
        assert portal.get(f"{api}/pending") == (200, collection.pending())
        assert portal.get(f"{api}/hosts", top=0)[0] == 422
        assert portal.ask("POST", f"{api}/pause") == (200, {"said": "no crawl runs", "running": False})
        assert portal.ask("POST", f"{api}/pause", token="wrong")[0] == 403
