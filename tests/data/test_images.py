"""Pictures that rows name: found within the data set alone, looked at, and refused with a reason."""

import base64
import io
import json
import os
import shutil
import zlib
from pathlib import Path

import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_folders import load

from burnish.data.conversations import Conversation, Image, Message, parse_conversation
from burnish.data.formats import Record
from burnish.data.images import FORMATS
from burnish.data.ledger import RowFault
from burnish.data.prepare import prepare_data
from burnish.data.sources import find_sources, read_records
from burnish.errors import DataError
from burnish.spec.train import LossMask, SourceData, TrainSpec


def _picture(kind: str = "PNG", size: tuple[int, int] = (3, 2), **options) -> bytes:
    out = io.BytesIO()
    # Noise, so that half of it is not all of it.
    image = PIL.Image.frombytes("RGB", size, os.urandom(size[0] * size[1] * 3))
    image.save(out, kind, **options)
    return out.getvalue()


OK = _picture()


def _url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data set that holds `images/ok.png`, `images/cut.png` and links; beside it lies `secret.png`."""
    folder = tmp_path / "mine"
    (folder / "images").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(OK)
    (folder / "images" / "ok.png").write_bytes(OK)
    (folder / "images" / "cut.png").write_bytes(OK[:30])
    (folder / "images" / "text.png").write_text("no picture")
    (folder / "images" / "inner.png").symlink_to("ok.png")
    (folder / "images" / "outer.png").symlink_to(tmp_path / "secret.png")
    (folder / "images" / "away").symlink_to(tmp_path)
    (folder / "images" / "circle.png").symlink_to("circle.png")
    os.mkfifo(folder / "images" / "pipe.png")
    return folder


def _read(root: Path, row: dict, *, file: str = "train.jsonl", per_message: int | None = None) -> Conversation:
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text(json.dumps(row) + "\n")
    (record,) = read_records(root)
    return parse_conversation(record, images_per_message=per_message)


def _fault(root: Path, row: dict, **options) -> str:
    with pytest.raises(RowFault) as caught:
        _read(root, row, **options)
    return str(caught.value)


def _asking(*parts: object, **columns: object) -> dict:
    return {"messages": [{"role": "user", "content": [*parts]}, {"role": "assistant", "content": "Red."}], **columns}


def _named(reference: object) -> dict:
    return _asking({"type": "image_url", "image_url": {"url": reference}}, {"type": "text", "text": "Which colour?"})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "images/ok.png", "detail": "low"}},
        {"type": "image_url", "image_url": "images/ok.png"},
        {"type": "image", "image": "./images/../images/ok.png", "text": None},
        {"type": "image", "image": {"bytes": None, "path": "images/ok.png"}},
        {"type": "image", "url": "images/inner.png"},
        {"type": "image", "path": "images/ok.png"},
        {"type": "image", "image": _url(OK)},
        {"image_url": {"url": _url(OK)}},
    ],
)
def test_a_part_names_its_image_in_many_ways(root, part):
    conversation = _read(root, _asking("a", part, {"type": "text", "text": "bc"}, part))
    message = conversation.messages[0]
    assert message.content == "abc"
    assert [(image.at, image.width, image.height) for image in message.images] == [(1, 3, 2), (3, 3, 2)]
    for image in message.images:
        assert (image.source if isinstance(image.source, bytes) else image.source.read_bytes()) == OK


def test_a_path_is_relative_to_the_data_file(root):
    assert _read(root, _named("../images/ok.png"), file="data/train.jsonl").messages[0].images
    (root / "data" / "train.jsonl").unlink()
    assert "is missing" in _fault(root, _named("images/ok.png"), file="data/train.jsonl")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("images/missing.png", "messages[0]: the image 'images/missing.png' is missing: there is no such file"),
        ("images/cut.png", "messages[0]: the image 'images/cut.png' is broken"),
        ("images/text.png", "is broken, or no PNG, JPEG, WEBP, GIF, BMP picture"),
        ("images", "is not a file"),
        ("images/pipe.png", "is not a file"),
        ("images/circle.png", "is missing"),
        ("../secret.png", "'../secret.png' lies outside the data set"),
        ("images/../../secret.png", "lies outside the data set"),
        ("images/outer.png", "lies outside the data set"),
        ("images/away/secret.png", "lies outside the data set"),
        ("/etc/hostname", "lies outside the data set"),
        ("file:///etc/hostname", "lies outside the data set"),
        ("C:\\picture.png", "lies outside the data set"),
        ("https://example.org/x.png", "is an address, and nothing is fetched"),
        ("images/" + "x" * 5000, "xxx...' is missing"),
        ("images/\0.png", "is missing"),
        ("", "is missing"),
        ("data:image/png;base64,iVBORw0KGgoAAAANSU", "in a data URL is broken: not valid base64"),
        (_url(OK)[:-20], "in a data URL is broken"),
        (_url(b""), "in a data URL is broken"),
        (_url(b"no picture"), "in a data URL is broken"),
        (_url(OK, "text/html"), "is not data:image/...;base64,..."),
        ("data:image/png,%89PNG", "is not data:image/...;base64,..."),
        (4, "the image is int, not a path"),
    ],
)
def test_an_image_that_cannot_be_used_says_why(root, reference, reason):
    assert reason in _fault(root, _named(reference))


def test_nothing_outside_is_opened(root, tmp_path):
    """A pipe there would wait for a writer for ever."""
    os.mkfifo(tmp_path / "pipe.png")
    (root / "images" / "to-pipe.png").symlink_to(tmp_path / "pipe.png")
    for reference in ("../pipe.png", "images/to-pipe.png", "images/away/pipe.png", str(tmp_path / "pipe.png")):
        assert "outside the data set" in _fault(root, _named(reference))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (301, 200)])
def test_each_format_is_measured_and_one_that_was_cut_off_is_broken(root, kind, size):
    whole = _picture(kind, size, **({"lossless": True} if kind == "WEBP" else {}))
    for data in (whole, whole + b"\0" * 10 if kind != "PNG" else whole):
        image = _read(root, _named(_url(data))).messages[0].images[0]
        assert (image.width, image.height) == size
    for cut in (len(whole) // 2, len(whole) - 3):
        assert "is broken" in _fault(root, _named(_url(whole[:cut])))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_a_picture_that_moves_is_refused(root, kind):
    frames = [PIL.Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, kind, save_all=True, append_images=frames[1:])
    assert "moves; only still pictures are trained" in _fault(root, _named(_url(out.getvalue())))


def test_a_picture_of_too_many_pixels_is_refused_without_unpacking_it(root):
    whole = bytearray(_picture(size=(1, 1)))
    whole[16:24] = (50_000).to_bytes(4, "big") * 2
    whole[29:33] = zlib.crc32(bytes(whole[12:29])).to_bytes(4, "big")
    assert "has more pixels than are read" in _fault(root, _named(_url(bytes(whole))))


def test_too_many_images_in_one_message_are_refused_before_they_are_opened(root):
    part = {"type": "image", "image": "images/missing.png"}
    assert _fault(root, _asking(part, part), per_message=1) == (
        "messages[0] has too many images: 2, and max_images_per_message is 1"
    )
    ok = {"type": "image", "image": "images/ok.png"}
    turns = [{"role": "user", "content": [ok]}, *_asking(ok)["messages"]]
    assert len(_read(root, {"messages": turns}, per_message=1).messages) == 3, "of each message, not of the row"


@pytest.mark.parametrize(
    ("row", "content", "places"),
    [
        (_asking({"type": "image"}, {"type": "text", "text": "x"}, {"type": "image"}), "x", [0, 1]),
        (_asking("<image>\nx<image>"), "\nx", [0, 2]),
        (_asking({"type": "text", "text": "a<image>"}, {"type": "image", "image": None}), "a", [1, 1]),
        ({"prompt": "p<image><image>", "completion": "c"}, "p", [1, 1]),
        ({"instruction": "i<image>", "input": "<image>j", "output": "o"}, "i\n\nj", [1, 3]),
        (
            {"conversations": [{"from": "human", "value": "<image>v<image>"}, {"from": "gpt", "value": "g"}]},
            "v",
            [0, 1],
        ),
    ],
)
def test_the_rows_images_come_to_their_places_in_order(root, row, content, places):
    other = _url(_picture(size=(5, 7)))
    message = _read(root, {**row, "images": ["images/ok.png", other]}).messages[0]
    assert message.content == content
    assert [(image.at, image.width) for image in message.images] == list(zip(places, (3, 5), strict=True))


def test_images_and_places_for_them_are_equally_many(root):
    assert "the row has 2 images, and the messages a place for 1" in _fault(
        root, _asking("<image>", images=[OK_URL] * 2)
    )
    assert "has a place for an image, and the row has only 1" in _fault(root, _asking("<image><image>", image=OK_URL))
    assert "an image column and an images column" in _fault(root, _asking("<image>", image=OK_URL, images=[OK_URL]))
    assert "the row has 1 images, and text a place for 0" in _fault(root, {"text": "x", "images": [OK_URL]})
    assert _read(root, _asking("<image>", images=[])).messages[0].content == "<image>", "seven letters"
    assert _read(root, _asking("<image>", images=json.dumps([OK_URL]))).messages[0].images


OK_URL = _url(OK)


def test_an_image_of_a_shape_that_is_not_known_is_not_lost(root):
    part = {"type": "image", "source": {"type": "base64", "data": "x"}}
    assert "an image under source, which is not understood" in _fault(root, _asking(part))
    part = {"type": "image", "image": {"x": 1}}
    assert "the image is an object with x, not url, bytes or path" in _fault(root, _asking(part))
    part = {"type": "image", "image": {"bytes": "iVBO", "path": "x.png"}}
    assert "the image has its bytes as text; JSON holds them as a data URL" in _fault(root, _asking(part))


@pytest.mark.parametrize(
    "column", [{"bytes": OK, "path": "/home/me/x.png"}, OK, {"path": "images/ok.png"}], ids=["feature", "bytes", "path"]
)
def test_bytes_in_parquet_are_images(root, column):
    turns = [
        {"role": "user", "content": [{"type": "image", "text": None}, {"type": "text", "text": "Which?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Red."}]},
    ]
    table = pa.Table.from_pylist([{"messages": turns, "images": [column]}])
    pq.write_table(table, root / "train.parquet")
    (record,) = read_records(root)
    (image,) = parse_conversation(record).messages[0].images
    assert (image.at, image.width, image.height) == (0, 3, 2)


def test_a_snapshot_of_the_hubs_cache_is_links_to_blobs_beside_it(tmp_path):
    repo = tmp_path / "datasets--me--mine"
    snapshot = repo / "snapshots" / "abc"
    (repo / "blobs").mkdir(parents=True)
    (snapshot / "images").mkdir(parents=True)
    (repo / "blobs" / "1").write_text(json.dumps(_named("images/x.png")) + "\n")
    (repo / "blobs" / "2").write_bytes(OK)
    (snapshot / "train.jsonl").symlink_to("../../blobs/1")
    (snapshot / "images" / "x.png").symlink_to("../../../blobs/2")
    (record,) = read_records(snapshot)
    assert parse_conversation(record).messages[0].images[0].source == repo / "blobs" / "2"
    (snapshot / "images" / "x.png").unlink()
    (snapshot / "images" / "x.png").symlink_to(tmp_path / "datasets--me--mine" / "other")
    (repo / "other").write_bytes(OK)
    with pytest.raises(RowFault, match="outside the data set"):
        parse_conversation(record)


def test_a_row_in_no_file_has_nothing_beside_it():
    with pytest.raises(RowFault, match="there is no data file that it could lie beside"):
        parse_conversation(Record(_named("x.png"), "chat", 1))


def test_image_references_as_v01_has_them(root):
    rows = [
        _named("images/ok.png"),
        _named(OK_URL),
        _named("images/missing.png"),
        _named("images/cut.png"),
        _named("../../../etc/hostname"),
        _named("data:image/png;base64,iVBORw0KGgoAAAANSU"),
        _asking({"type": "image", "image": "images/ok.png"}, {"type": "image", "image": "images/ok.png"}),
        {"messages": [{"role": "user", "content": "No picture."}, {"role": "assistant", "content": "Right."}]},
    ]
    (root / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    good, bad = [], {}
    for place, record in enumerate(read_records(root / "data.jsonl")):
        try:
            parse_conversation(record, images_per_message=1)
            good.append(place)
        except RowFault as fault:
            bad[place] = str(fault)
    assert good == [0, 1, 7]
    for place, reason in {2: "missing", 3: "broken", 4: "outside", 5: "base64", 6: "too many images"}.items():
        assert reason in bad[place]


@pytest.mark.parametrize("name", ["auto", "chatml", "qwen3"])
@pytest.mark.parametrize("history", ["split", "drop"])
def test_a_renderer_that_shows_no_images_leaves_none_out_in_silence(tiny, name, history):
    seen = Message("user", "Which colour?", images=(Image(0, 1, 1, b""),))
    conversation = Conversation((seen, Message("assistant", "Red.")))
    with pytest.raises(RowFault, match=r"messages\[0\] has images, and the renderer `.*` has none"):
        load(tiny, name).write(conversation, LossMask(), history=history)


def test_a_directory_of_pictures_beside_the_data_is_no_data(root):
    (root / "train.jsonl").write_text("{}\n")
    (source,) = find_sources(root)
    assert [file.name for file in source.files] == ["train.jsonl"]


def test_a_store_for_a_model_that_sees_is_made_anew_when_an_image_changes(root, tiny, tmp_path):
    (root / "train.jsonl").write_text(json.dumps({"prompt": "p", "completion": "c"}) + "\n")
    sees = tmp_path / "sees"
    shutil.copytree(tiny, sees)
    (sees / "preprocessor_config.json").write_text("{}")

    def stores(model: Path) -> int:
        spec = TrainSpec(model="t", data=SourceData(path="mine"), row_tokens=64, steps=1)
        place = tmp_path / f"stores-{model.name}"
        prepare_data(spec, model_directory=model, data_path=root, store_directory=place, say=lambda _: None)
        return len(list(place.glob("*/manifest.json")))

    assert [stores(sees), stores(sees), stores(tiny)] == [1, 1, 1]
    (root / "images" / "ok.png").write_bytes(_picture(size=(9, 9)))
    assert [stores(sees), stores(tiny)] == [2, 1]


def test_the_limit_of_images_in_a_message_is_the_wishs(root, tiny, tmp_path):
    part = {"type": "image", "image": "images/ok.png"}
    (root / "train.jsonl").write_text(json.dumps(_asking(part, part)) + "\n")
    for limit, reason in ((1, "max_images_per_message is 1"), (2, "has images, and the renderer")):
        data = SourceData(path="mine", images_per_message=limit)
        with pytest.raises(DataError, match=reason):
            prepare_data(
                TrainSpec(model="t", data=data, steps=1),
                model_directory=tiny,
                data_path=root,
                store_directory=tmp_path / "stores",
                say=lambda _: None,
            )
