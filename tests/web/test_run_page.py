"""The run page in a real browser, against a real server; skipped where no Chromium is installed."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from burnish.executors.scripted import exited
from burnish.run.events import Finished, Prepared, Started, Step, Validated

TALK = """\
max_steps = 10
[model]
name = "burnish/tiny"
[data]
name = "datasets/talk"
seq_len = 96
batch_size = 1
"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


def in_browser(test):
    return pytest.mark.slow(pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")(test))


def shown(url: str, profile: Path) -> str:
    """The page's markup after six seconds of its own time."""
    assert CHROMIUM is not None
    switches = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    command = [
        CHROMIUM,
        *switches.split(),
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
    ]
    command += ["--virtual-time-budget=6000", "--window-size=1100,1200", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout


def a_step(number: int, loss: float) -> Step:
    return Step(step=number, values={"loss/mean": loss}, tokens=640, trained_tokens=600, seconds=0.5)


def an_epoch() -> Prepared:
    return Prepared(
        conversations_read=12,
        conversations_used=10,
        conversations_dropped={"too long": 2},
        tokens=1234,
        trained_tokens=900,
        rows=10,
        pad_share=0.1,
        steps=10,
        steps_per_epoch=10,
    )


def test_the_page_asks_nobody_but_its_own_server(stage):
    run = stage.client.runs.get(stage.start())
    page = httpx.get(run.page_url)
    assert page.status_code == 200
    root = run.page_url.split("/runs/")[0]
    for name in ("style.css", "run.js", "plotly.min.js"):
        assert f"/static/{name}" in page.text
        assert httpx.get(f"{root}/static/{name}").status_code == 200
    for name in ("run.html", "style.css", "run.js"):
        text = httpx.get(f"{root}/static/{name}").text
        assert "http://" not in text and "https://" not in text and "//cdn" not in text


def test_the_script_never_writes_html():
    script = (Path(__file__).parents[2] / "src/burnish/web/run.js").read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in script


@in_browser
def test_a_running_run_shows_its_step_loss_speed_and_curve(stage, tmp_path):
    run_id = stage.start()
    stage.write(run_id, Started(pid=1, device="CPU", dtype="float32"), an_epoch())
    stage.write(run_id, *(a_step(number, 2.0 / number) for number in (1, 2, 3, 4)))
    stage.log(run_id, "a line of the log\n")
    page = shown(stage.client.runs.get(run_id).page_url, tmp_path / "profile")
    assert ">RUNNING<" in page
    assert "<b>4</b><span>of 10 steps</span>" in page
    assert "<b>0.5000</b><span>loss, nats per token</span>" in page
    assert "<b>1,280</b><span>tokens/s</span>" in page
    assert "<b>3.0 s</b><span>left</span>" in page
    assert "10 of 12 conversations (left out: 2 too long), 1,234 tokens in 10 rows" in page
    assert "a line of the log" in page
    assert 'class="main-svg"' in page
    assert page.count('class="point"') == 4


@in_browser
def test_what_is_held_out_has_a_curve_of_its_own(stage, tmp_path):
    run_id = stage.start()
    held_out = [Validated(step=n, values={"val/loss": 3.0 - n}, trained_tokens=9, seconds=0.1) for n in (0, 2)]
    stage.write(run_id, Started(pid=1, device="CPU", dtype="float32"), an_epoch(), held_out[0])
    stage.write(run_id, a_step(1, 2.0), a_step(2, 1.0), held_out[1])
    page = shown(stage.client.runs.get(run_id).page_url, tmp_path / "profile")
    assert ">held out<" in page and ">trained<" in page
    assert page.count('class="point"') == 4


@in_browser
def test_words_of_a_stranger_stay_words(stage, tmp_path):
    run_id = stage.start()
    stage.write(run_id, Started(pid=1, device="CPU", dtype="float32"))
    stage.log(run_id, HOSTILE + "\n")
    stage.write(run_id, Finished(outcome="failed", step=0, message=HOSTILE, hint=HOSTILE))
    stage.end(run_id, exited(1))
    page = shown(stage.client.runs.get(run_id).page_url, tmp_path / "profile")
    assert ">FAILED<" in page
    assert "<title>taken" not in page
    assert "<img src=" not in page
    assert page.count("&lt;img src=x onerror=") >= 2


def put_rows(stage, *rows: tuple[str, str]) -> None:
    stage.client.volumes.create("research", size="1Gi")
    folder = stage.house.home.volume("research") / "datasets/talk"
    folder.mkdir(parents=True)
    turns = ([{"role": "user", "content": asked}, {"role": "assistant", "content": said}] for asked, said in rows)
    (folder / "train.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in turns))


@in_browser
def test_the_page_shows_what_is_trained_and_strange_rows_stay_words(stage, tmp_path):
    put_rows(
        stage,
        ("Is it lit?", "Yes."),
        ("Odd", HOSTILE[:30] + "\u202e\x1b[31m"),
        ("Is it lit?", "Yes."),
        ("x", "y" * 200),
    )
    run_id = stage.client.runs.submit(TALK, volume="research").id
    page = shown(stage.client.runs.get(run_id).page_url, tmp_path / "profile")
    assert "<dt>Renderer</dt><dd>auto (chatml)</dd>" in page
    assert "3 of 4 used (skipped: 1 too long)" in page
    assert "train.jsonl:4: too long (222 tokens)" in page
    assert "1 to the letter, 0 nearly" in page
    assert "<dt>Stream</dt><dd>not compared: the trainer has not counted its rows yet.</dd>" in page
    assert "<figcaption>train.jsonl:1: 35 tokens, 5 trained</figcaption>" in page
    assert re.search(r'<span class="trained( odd)?">Y</span><span class="trained( odd)?">e</span>', page)
    assert re.search(r'<span class="context( odd)?">&lt;\|im_start\|&gt;</span>', page)
    assert "<title>taken" not in page and "\\u202e" in page and "\\u001b" in page and "\u202e" not in page


@in_browser
def test_a_wrong_key_is_told_and_asked_no_more(stage, tmp_path):
    url = stage.client.runs.get(stage.start()).page_url.split("?key=")[0] + "?key=wrong"
    page = shown(url, tmp_path / "profile")
    assert "The key is missing or does not open this run." in page
