"""Every path under `$BURNISH_HOME` (default `~/.burnish`), named once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    root: Path

    @property
    def database(self) -> Path:
        return self.root / "burnish.db"

    @property
    def token(self) -> Path:
        """The local server's key, mode 0600."""
        return self.root / "token"

    @property
    def server(self) -> Path:
        """`server.json`: url, pid and version of the server that runs now; gone when it stops cleanly."""
        return self.root / "server.json"

    @property
    def server_lock(self) -> Path:
        """Held by the running server for life, so that no two serve one home."""
        return self.root / "server.lock"

    @property
    def server_log(self) -> Path:
        return self.root / "server.log"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    def volume(self, name: str) -> Path:
        return self.volumes / name

    @property
    def scratch(self) -> Path:
        """A volume's stand-in for runs that have none."""
        return self.root / "scratch"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def stores(self) -> Path:
        """Tokenised data, shared by runs."""
        return self.root / "stores"

    @property
    def secrets(self) -> Path:
        """What configs give to trainers in `env_vars`, one file a run, mode 0600; in no database and on no volume."""
        return self.root / "secrets"

    @property
    def attempts(self) -> Path:
        """What the executor needs to know of its programs; outside the user's view."""
        return self.root / "attempts"


def find_home(environment: Mapping[str, str] = os.environ) -> Home:
    named = environment.get("BURNISH_HOME")
    return Home(Path(named).expanduser() if named else Path.home() / ".burnish")
