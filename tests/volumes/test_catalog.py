"""The catalogue is the cache's models and what runs have made, for as long as their files are there."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from stored_runs import add_run

from burnish.control.catalog import add_model, get_model, list_models, model_directory, remove_model
from burnish.control.house import House
from burnish.control.tables import ExportRow
from burnish.errors import Conflict, ModelError, NotFound
from burnish.literals import adapter_model_id, full_model_id, new_run_id
from burnish.models.tiny import build_tiny
from burnish.run.status import RunStatus
from burnish.wire import AddModelRequest


def add_export(house: House, *, volume: str | None) -> str:
    """What a run leaves: a model's files and a row."""
    run_id = new_run_id()
    path = f"/runs/{run_id}/outputs/fft-{run_id}/checkpoints/step_10/model"
    build_tiny((house.home.volume(volume) if volume else house.home.scratch) / path.lstrip("/"))
    model_id = full_model_id("burnish/tiny", run_id)
    with house.database.session() as session:
        session.add(
            ExportRow(
                id=model_id,
                base="burnish/tiny",
                run_id=run_id,
                step=10,
                path=path,
                volume=volume,
                size_bytes=866_560,
                created_at=house.now(),
            )
        )
    return model_id


def test_an_added_model_is_listed_and_found(house: House):
    [built_in] = list_models(house).models
    added = add_model(house, AddModelRequest(source="burnish/tiny"))
    assert added == built_in
    assert (added.id, added.kind, added.parameters) == ("burnish/tiny", "base", 213_824)
    assert list_models(house).models == [added]
    assert get_model(house, "burnish/tiny") == added
    assert model_directory(house, "burnish/tiny") == Path(added.directory)


@pytest.mark.parametrize("volume", ["research", None])
def test_what_a_run_made_is_a_model_like_its_base(house: House, root: Path, volume: str | None):
    base = add_model(house, AddModelRequest(source="burnish/tiny"))
    model_id = add_export(house, volume=volume)
    made = get_model(house, model_id)
    assert (made.kind, made.base, made.step) == ("full", "burnish/tiny", 10)
    assert (made.architecture, made.parameters) == (base.architecture, base.parameters)
    assert list_models(house).models == [base, made]
    assert model_directory(house, model_id) == Path(made.directory)
    assert (Path(made.directory) / "config.json").is_file()


def test_a_model_whose_files_are_gone_says_so_and_is_not_listed(house: House, root: Path):
    model_id = add_export(house, volume="research")
    shutil.rmtree(root / "runs")
    assert [model.id for model in list_models(house).models] == ["burnish/tiny"]
    for ask in (get_model, model_directory):
        with pytest.raises(ModelError, match=r"files of ft:.* are gone: /runs/.* on volume research"):
            ask(house, model_id)


def test_a_model_whose_weights_were_cut_is_not_handed_to_a_run(house: House, root: Path):
    directory = model_directory(house, model_id := add_export(house, volume="research"))
    (directory / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="not a safetensors file"):
        model_directory(house, model_id)


def test_an_adapter_is_listed_with_the_model_it_belongs_to_and_starts_no_run(house: House, root: Path):
    run_id = new_run_id()
    path = f"/runs/{run_id}/outputs/fft-{run_id}/checkpoints/step_10/model"
    folder = house.home.volume("research") / path.lstrip("/")
    folder.mkdir(parents=True)
    config = {"peft_type": "LORA", "r": 8, "base_model_name_or_path": "ft:burnish/tiny:job_0123456789abcdef"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file({"a": np.zeros((8, 4), np.float32)}, folder / "adapter_model.safetensors")
    model_id = adapter_model_id("burnish/tiny", run_id)
    values = {"base": config["base_model_name_or_path"], "run_id": run_id, "step": 10, "path": path}
    with house.database.session() as session:
        session.add(ExportRow(id=model_id, volume="research", size_bytes=9, created_at=house.now(), **values))
    adapter = get_model(house, model_id)
    assert (adapter.kind, adapter.base, adapter.parameters) == ("adapter", config["base_model_name_or_path"], 32)
    assert adapter in list_models(house).models
    with pytest.raises(ModelError, match="is an adapter, and a run starts from a whole model"):
        model_directory(house, model_id)
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks adapter_model\.safetensors"):
        get_model(house, model_id)
    assert adapter not in list_models(house).models


def test_a_model_that_never_was(house: House):
    with pytest.raises(NotFound, match="There is no fine-tune ft:"):
        get_model(house, full_model_id("burnish/tiny", new_run_id()))
    with pytest.raises(ModelError, match="acme/x is not in the model cache"):
        model_directory(house, "acme/x")
    with pytest.raises(ModelError, match="acme/x is not in the model cache"):
        remove_model(house, "acme/x")


def test_removing_a_fine_tune_forgets_it_and_leaves_its_files(house: House, root: Path):
    model_id = add_export(house, volume="research")
    directory = model_directory(house, model_id)
    remove_model(house, model_id)
    assert [model.id for model in list_models(house).models] == ["burnish/tiny"]
    assert (directory / "config.json").is_file()
    with pytest.raises(NotFound):
        remove_model(house, model_id)


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_model_that_a_run_starts_from_stays_until_the_run_is_over(house: House, root: Path, status: RunStatus):
    add_model(house, AddModelRequest(source="burnish/tiny"))
    for model_id in ("burnish/tiny", add_export(house, volume="research")):
        run_id = add_run(house, volume=None, status=status, model=model_id)
        if status.is_over:
            remove_model(house, model_id)
        else:
            with pytest.raises(Conflict, match=f"is in use by {run_id}"):
                remove_model(house, model_id)
            assert model_directory(house, model_id).is_dir()
