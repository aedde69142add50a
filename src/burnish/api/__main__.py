"""`python -m burnish.api`: serve one home until told to stop. Runs go on without it."""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from burnish.api.app import create_app
from burnish.api.gate import LOCAL_HOSTS
from burnish.api.server import DEFAULT_PORT, Server, claim_home, listen, read_or_make_token, url_of
from burnish.control.db import Database
from burnish.control.house import House
from burnish.control.launch import inheritable
from burnish.control.reconciler import Reconciler
from burnish.control.settings import find_database_url
from burnish.errors import BurnishError
from burnish.executors.local import LocalExecutor
from burnish.home import Home, find_home
from burnish.models.cache import ModelCache

_log = logging.getLogger("burnish.api")

_ANY = ("0.0.0.0", "::")


def main() -> int:
    wanted = _read_arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    home = Home(wanted.home.resolve()) if wanted.home else find_home()
    # Until uvicorn listens for signals, and again after it, one of them simply ends the process in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with claim_home(home):
            serve(home, wanted.host, wanted.port)
    except BurnishError as error:
        print(f"burnish: {error.message}\n  {error.hint}".rstrip(), file=sys.stderr)
        return 1
    except OSError as error:
        print(f"burnish: {home.root} cannot be served: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def serve(home: Home, host: str, port: int | None) -> None:
    """Listen on `host`; `port` None is the usual one, or a free one where that is taken."""
    token = read_or_make_token(home)
    house = _open_house(home)
    listener = listen(host, port)
    url = url_of(listener, host)
    hosts = None if host in _ANY else LOCAL_HOSTS | {f"[{host}]" if ":" in host else host.lower()}
    if host not in ("127.0.0.1", "localhost", "::1"):
        _log.warning("Listening on %s: what goes there, the key too, is not encrypted.", host)
    stop = threading.Event()
    reconciler = threading.Thread(target=Reconciler(house).run_forever, args=(stop,), name="reconciler", daemon=True)
    reconciler.start()
    try:
        Server(create_app(house, token, hosts=hosts), home=home, url=url).run(sockets=[listener])
    finally:
        stop.set()
        house.bell.set()
        reconciler.join(timeout=2.0)  # it gives its leases back, so that the next server need not wait
        house.database.close()


def _open_house(home: Home) -> House:
    database = Database(find_database_url(home, os.environ))
    database.upgrade()
    return House(home, database, LocalExecutor(home.attempts, inheritable(os.environ)), ModelCache(home.models))


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m burnish.api", description=__doc__)
    parser.add_argument("--home", type=Path, help="default: $BURNISH_HOME, or ~/.burnish")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=int, help=f"0 takes a free one; default: {DEFAULT_PORT}, or a free one where that is taken"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
