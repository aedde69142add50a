"""What a config gives to its trainer under `env_vars`: kept in a file of its own, in no database and on no volume.

Knows nothing of runs but their ids.
"""

import json
import os

from burnish.control.house import House
from burnish.dialects.masking import mask_secrets, smells_of_secret

_SHORTEST = 6
"""Shorter values are words like `cpu` or `1`: hiding those would only garble the text around them."""


def keep_environment(house: House, run_id: str, environment: dict[str, str]) -> None:
    """Written whole, readable by the server's user alone. Nothing to keep, no file."""
    if not environment:
        return
    house.home.secrets.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = house.home.secrets / f"{run_id}.json"
    temporary = path.with_suffix(".tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(environment, file)
    temporary.replace(path)


def read_environment(house: House, run_id: str) -> dict[str, str]:
    try:
        return json.loads((house.home.secrets / f"{run_id}.json").read_text())
    except FileNotFoundError:
        return {}


def drop_environment(house: House, run_id: str) -> None:
    (house.home.secrets / f"{run_id}.json").unlink(missing_ok=True)


def hide(text: str, environment: dict[str, str]) -> str:
    """`text` with every secret of the environment as `***`: values by the same signs as in the shown config.

    The longest first, so that one value within another leaves no rest.
    """
    secrets = [
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and (smells_of_secret(name) or mask_secrets(value) != value)
    ]
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "***")
    return text
