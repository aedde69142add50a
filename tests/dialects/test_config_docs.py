"""docs/config.md says of every key what the code does with it."""

import re

import pytest
from config_tables import PAGE, page_with, render_tables

from burnish.dialects import read_config


def test_the_tables_in_the_docs_are_those_of_the_schema() -> None:
    assert PAGE.read_text() == page_with(render_tables()), "run: python tests/dialects/config_tables.py"


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_every_example_in_the_docs_reads(example: str) -> None:
    assert read_config(example).spec.model
