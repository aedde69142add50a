"""The page of a run and what it is drawn with. Static: whatever it shows, it asks the API for with its key."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from burnish.errors import NotFound
from burnish.literals import is_run_id

router = APIRouter()


def _package(name: str) -> Path:
    """Where an installed package lies; it is not imported, which for plotly would take a second."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, name
    return Path(spec.origin).parent


_WEB = _package("burnish.web")
_PLOTLY = _package("plotly") / "package_data" / "plotly.min.js"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

_HEADERS = {
    # The page's address holds its key: it goes to nobody else and into no cache.
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Plotly writes its style sheet into the page.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"
    ),
}


@router.get("/runs/{run_id}", response_class=FileResponse)
def show_run(run_id: str) -> FileResponse:
    if not is_run_id(run_id):
        raise NotFound(f"{run_id!r} is not the id of a run.", hint="See burnish train list.")
    return FileResponse(_WEB / "run.html", media_type="text/html", headers=_HEADERS)


@router.get("/static/{name}", response_class=FileResponse)
def get_static(name: str) -> FileResponse:
    path = _PLOTLY if name == _PLOTLY.name else _WEB / name
    if path.name != name or path.suffix not in _TYPES or not path.is_file():
        raise NotFound(f"There is no /static/{name} here.")
    headers = {"Cache-Control": "max-age=3600", "X-Content-Type-Options": "nosniff"}
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=headers)
