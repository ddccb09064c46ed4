"""The web page: static files from the package, nothing fetched from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles


def add_page(app: FastAPI) -> None:
    """Serve the page on `/` and its parts under `/web`."""
    directory = files("services.web") / "static"
    app.mount("/web", StaticFiles(directory=str(directory)), name="web")
    page = (directory / "index.html").read_bytes()

    async def index() -> Response:
        return Response(page, media_type="text/html; charset=utf-8")

    async def icon() -> Response:
        return RedirectResponse("/web/icon.svg")

    app.add_api_route("/", index, include_in_schema=False)
    app.add_api_route("/favicon.ico", icon, include_in_schema=False)
