"""Who may ask for what."""

import re

import pytest
from door import Door

from burnish.api.auth import watch_key
from burnish.literals import new_run_id
from burnish.wire import PREFIX, ErrorView

OPEN = {("GET", f"{PREFIX}/health"), ("GET", "/runs/{run_id}"), ("GET", "/static/{name}")}
WATCHED = {("GET", f"{PREFIX}/runs/{{run_id}}{rest}") for rest in ("", "/metrics", "/logs", "/checkpoints", "/check")}


def routes(door: Door) -> set[tuple[str, str]]:
    schema = door.stranger.app.openapi()  # type: ignore[attr-defined]  # TestClient's app is any ASGI callable
    return {(verb.upper(), path) for path, verbs in schema["paths"].items() for verb in verbs}


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer é"]
)
def test_without_the_key_nothing_answers_but_health_and_the_empty_page(door: Door, header: str | None):
    headers = {} if header is None else {b"Authorization": header.format(token=door.token).encode()}
    asked = routes(door) - OPEN
    assert len(asked) > 20
    for verb, path in sorted(asked):
        answer = door.stranger.request(verb, re.sub(r"\{.*?\}", "x", path), headers=headers)
        assert (verb, path, answer.status_code) == (verb, path, 401)
        assert ErrorView.model_validate(answer.json()).code == "access_denied"
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_health_is_told_to_anybody(door: Door):
    answer = door.stranger.get(f"{PREFIX}/health")
    assert answer.status_code == 200 and answer.json()["name"] == "burnish"


def test_the_routes_that_open_more_easily_are_these(door: Door):
    assert routes(door) >= OPEN | WATCHED


def test_the_page_of_a_run_opens_that_run_for_reading(door: Door):
    run = door.submit()
    match = re.fullmatch(r"http://127\.0\.0\.1:8420/runs/(job_[0-9a-f]{16})\?key=([0-9a-f]{32})", run["page_url"])
    assert match and match.group(1) == run["id"]
    key = {"key": match.group(2)}
    for _, path in WATCHED:
        assert door.stranger.get(path.format(run_id=run["id"]), params=key).status_code == 200


def test_a_watch_key_opens_nothing_else(door: Door):
    run, other = door.submit(), door.submit()
    key = {"key": watch_key(door.token, run["id"])}
    for verb, path in sorted(routes(door) - OPEN - WATCHED):
        filled = path.replace("{run_id}", run["id"])
        answer = door.stranger.request(verb, re.sub(r"\{.*?\}", "x", filled), params=key)
        assert (verb, path, answer.status_code) == (verb, path, 401)
    for _, path in WATCHED:
        for run_id in (other["id"], new_run_id()):
            assert door.stranger.get(path.format(run_id=run_id), params=key).status_code == 401
    assert door.api.get(f"/runs/{run['id']}").json()["status"] == "PENDING"


def test_a_watch_key_is_not_a_bearer_nor_the_token_a_watch_key(door: Door):
    run = door.submit()
    path = f"{PREFIX}/runs/{run['id']}"
    bearer = {"Authorization": f"Bearer {watch_key(door.token, run['id'])}"}
    assert door.stranger.get(path, headers=bearer).status_code == 401
    assert door.stranger.get(path, params={"key": door.token}).status_code == 401
    assert door.stranger.get(path, params={"key": ""}).status_code == 401


def test_a_run_that_is_not_there_is_told_only_to_who_may_know(door: Door):
    path = f"{PREFIX}/runs/{new_run_id()}"
    assert door.stranger.get(path).status_code == 401
    assert door.api.get(path.removeprefix(PREFIX)).status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8420", "localhost:1", "LOCALHOST", "[::1]", "[::1]:8420"])
def test_this_machine_by_its_names_is_answered(door: Door, host: str):
    assert door.stranger.get(f"{PREFIX}/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8420", "evil.example:127.0.0.1", "", "[::2]"],
)
def test_another_name_is_not_ours_even_with_the_key(door: Door, host: str):
    # A page elsewhere may point its own name at 127.0.0.1 and ask through its visitor's browser.
    answer = door.api.get("/runs", headers={"Host": host})
    assert answer.status_code == 400
    assert ErrorView.model_validate(answer.json()).code == "host"
