"""The run page in a real browser, against a real server; skipped where no Chromium is installed."""

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from burnish.executors.scripted import exited
from burnish.run.events import Finished, Prepared, Started, Step

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


@in_browser
def test_a_wrong_key_is_told_and_asked_no_more(stage, tmp_path):
    url = stage.client.runs.get(stage.start()).page_url.split("?key=")[0] + "?key=wrong"
    page = shown(url, tmp_path / "profile")
    assert "The key is missing or does not open this run." in page
