"""The routes of `wire` answer with its views, and every refusal is an `ErrorView`."""

import pytest
from door import FAKE_RUN, Door

from burnish.dialects import read_config
from burnish.errors import ConfigError, error_from_code
from burnish.wire import (
    CapacityView,
    CheckpointList,
    EntryList,
    EntryView,
    ErrorView,
    LogView,
    MetricsView,
    ModelList,
    ModelView,
    RunDetail,
    RunList,
    RunView,
    VolumeList,
    VolumeView,
)


def test_a_run_from_submission_to_deletion(door: Door):
    made = RunDetail.model_validate(door.submit())
    assert RunDetail.model_validate(door.api.get(f"/runs/{made.id}").json()) == made
    assert [run.id for run in RunList.model_validate(door.api.get("/runs").json()).runs] == [made.id]
    MetricsView.model_validate(door.api.get(f"/runs/{made.id}/metrics", params={"after_step": 2}).json())
    LogView.model_validate(door.api.get(f"/runs/{made.id}/logs", params={"offset": -10}).json())
    CheckpointList.model_validate(door.api.get(f"/runs/{made.id}/checkpoints").json())
    assert RunView.model_validate(door.api.post(f"/runs/{made.id}/stop").json()).status == "STOPPED"
    assert door.api.delete(f"/runs/{made.id}").status_code == 204
    assert door.api.get("/runs").json() == {"runs": []}


def test_one_idempotency_key_is_one_run(door: Door):
    key = {"Idempotency-Key": "once"}
    first, again = (door.api.post("/runs", json={"config": FAKE_RUN}, headers=key).json() for _ in range(2))
    assert first["id"] == again["id"] != door.submit()["id"]


def test_a_volume_from_creation_to_deletion(door: Door):
    made = VolumeView.model_validate(door.api.post("/volumes", json={"name": "research", "size": "1Mi"}).json())
    assert VolumeView.model_validate(door.api.get("/volumes/research").json()) == made
    assert VolumeList.model_validate(door.api.get("/volumes").json()).volumes == [made]
    assert door.api.patch("/volumes/research", json={"size": "2Mi"}).json()["size_bytes"] == 2 * made.size_bytes
    assert door.api.delete("/volumes/research").status_code == 204
    assert door.api.get("/volumes").json() == {"volumes": []}


def test_a_file_from_put_to_removal(door: Door):
    door.api.post("/volumes", json={"name": "research", "size": "1Mi"})
    assert door.api.post("/volumes/research/put-check", json={"sizes": {"datasets/ä b": 5}}).status_code == 204
    put = EntryView.model_validate(door.api.put("/volumes/research/files/datasets/ä b", content=b"hello").json())
    assert (put.path, put.size_bytes) == ("/datasets/ä b", 5)
    got = door.api.get("/volumes/research/files/datasets/ä b")
    assert (got.content, got.headers["Content-Length"]) == (b"hello", "5")
    listed = EntryList.model_validate(door.api.get("/volumes/research/entries", params={"path": "/datasets"}).json())
    assert listed.entries == [put]
    assert (
        EntryView.model_validate(door.api.get("/volumes/research/usage", params={"path": "/"}).json()).size_bytes == 5
    )
    assert door.api.delete("/volumes/research/files/datasets").status_code == 400
    assert door.api.delete("/volumes/research/files/datasets", params={"recursive": True}).status_code == 204
    assert door.api.get("/volumes/research/entries").json() == {"entries": []}


def test_a_model_from_adding_to_removal(door: Door):
    made = ModelView.model_validate(door.api.post("/models", json={"source": "burnish/tiny"}).json())
    assert ModelView.model_validate(door.api.get("/models/burnish/tiny").json()) == made
    assert ModelList.model_validate(door.api.get("/models").json()).models == [made]
    assert door.api.delete("/models/burnish/tiny").status_code == 204
    # It is built in: asked for again, it is built again.
    assert [model["id"] for model in door.api.get("/models").json()["models"]] == ["burnish/tiny"]


def test_what_the_server_can_run_on(door: Door):
    capacity = CapacityView.model_validate(door.api.get("/capacity").json())
    assert [slot.run_id for slot in capacity.slots] == [None]


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "code"),
    [
        ("GET", "/volumes/nope", None, 404, "not_found"),
        ("GET", "/runs/job_0123456789abcdef", None, 404, "not_found"),
        ("GET", "/models/ft:a/b:job_0123456789abcdef", None, 404, "not_found"),
        ("GET", "/models/acme/x", None, 400, "model"),
        ("GET", "/nothing/here", None, 404, "not_found"),
        ("PATCH", "/runs", None, 405, "method"),
        ("POST", "/volumes", {"name": "research"}, 409, "conflict"),
        ("POST", "/volumes", {"name": "UP"}, 400, "volume"),
        ("POST", "/runs", {"config": "max_steps ="}, 400, "config"),
        ("POST", "/volumes/research/put-check", {"sizes": {"a": 10**9}}, 409, "volume_full"),
        ("PUT", "/volumes/research/files/runs/x", None, 400, "volume"),
    ],
)
def test_a_refusal_keeps_its_kind_on_the_way(door: Door, verb: str, path: str, body: object, status: int, code: str):
    door.api.post("/volumes", json={"name": "research", "size": "1Mi"})
    answer = door.api.request(verb, path, json=body)
    view = ErrorView.model_validate(answer.json())
    assert (answer.status_code, view.code) == (status, code)
    assert view.message.endswith((".", "?")) and error_from_code(view.code, view.message).message == view.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"nam": "x"}', ["nam: extra inputs", "name: field required"]),
        (b'{"name": 7}', ["name: input should be a valid string"]),
        (b"[1]", ["the body: input should be"]),
        (b"{", ["the body: JSON decode error"]),
    ],
)
def test_a_body_that_cannot_be_read_is_blamed_on_its_keys(door: Door, body: bytes, words: list[str]):
    answer = door.api.post("/volumes", content=body, headers={"Content-Type": "application/json"})
    view = ErrorView.model_validate(answer.json())
    assert answer.status_code == 422
    assert all(word in view.message for word in words), view.message


def test_every_fault_of_a_config_comes_with_its_own_sentence(door: Door):
    config = FAKE_RUN.replace("max_steps", "maxsteps").replace("batch_size = 2", 'batch_size = "two"\nsequence = 3')
    answer = door.api.post("/runs", json={"config": config})
    view = ErrorView.model_validate(answer.json())
    with pytest.raises(ConfigError) as read_here:
        read_config(config)
    assert [(each.key, each.message) for each in view.problems] == [
        (each.key, each.message) for each in read_here.value.problems
    ]
    assert {each.key for each in view.problems} >= {"maxsteps", "data.batch_size", "data.sequence"}


def test_a_fault_of_the_machine_is_told_without_its_traceback(door: Door):
    # A home that turned into something else is nobody's fault that the server knows.
    door.api.post("/volumes", json={"name": "research", "size": "1Mi"})
    private = door.house.home.volume("research") / ".burnish"
    private.mkdir(exist_ok=True)
    (private / "lock").mkdir()
    door.api._transport.raise_server_exceptions = False  # type: ignore[attr-defined]  # as a real server does
    answer = door.api.put("/volumes/research/files/a", content=b"x")
    assert answer.status_code == 500
    view = ErrorView.model_validate(answer.json())
    assert view.code == "server" and "Is a directory" in view.message
    assert "Traceback" not in answer.text


def test_the_page_and_what_it_is_drawn_with(door: Door):
    run = door.submit()
    page = door.stranger.get(run["page_url"])
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    chart = door.stranger.get("/static/plotly.min.js")
    assert chart.headers["Content-Type"].startswith("text/javascript") and len(chart.content) > 10**6


def test_everything_that_the_page_names_is_served(door: Door):
    page = door.stranger.get("/runs/job_0123456789abcdef").text
    named = [piece.split('"')[0] for piece in page.split('="')[1:] if piece.startswith("/static/")]
    assert named
    for path in named:
        assert door.stranger.get(path).status_code == 200


@pytest.mark.parametrize("name", ["__init__.py", "..%2f__init__.py", "%2e%2e", "run.py", ".", "nope.js", "a%00.js"])
def test_nothing_but_the_page_is_served_from_its_folder(door: Door, name: str):
    assert door.stranger.get(f"/static/{name}").status_code == 404
    assert door.stranger.get(f"/runs/{name}").status_code == 404


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("POST", "/runs", b'{"config": "\\ud800"}'),
        ("POST", "/volumes", b'{"name": "\\ud800"}'),
        ("POST", "/volumes/research/put-check", b'{"sizes": {"\\ud800": 1}}'),
        ("POST", "/volumes/research/put-check", b'{"sizes": {"a": 1' + b"0" * 400 + b"}}"),
        ("POST", "/volumes/research/put-check", b'{"sizes": {"a": -1}}'),
        ("POST", "/models", b'{"source": "/tmp/\\ud800"}'),
        ("POST", "/models", b'{"source": "/tmp/\\u0000"}'),
        ("POST", "/models", b'{"source": "~nobody-of-that-name/x"}'),
        ("POST", "/models", b'{"source": "/' + b"a" * 5000 + b'"}'),
        ("POST", "/runs", b"[" * 100_000),
        ("POST", "/volumes", b'{"name": "\xff"}'),
        ("GET", "/runs/job_0123456789abcdef/metrics?after_step=" + "9" * 30, b""),
    ],
)
def test_what_no_client_means_is_the_requests_fault_and_never_the_servers(
    door: Door, verb: str, path: str, body: bytes
):
    door.api.post("/volumes", json={"name": "research", "size": "1Mi"})
    answer = door.api.request(verb, path, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert ErrorView.model_validate(answer.json()).message
