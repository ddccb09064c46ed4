"""How tests come to the page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from services.access.role import Role
from tests.web.conftest import Served


def visit(
    page: Page,
    served: Served,
    where: str = "",
    role: Role = Role.ADMIN,
    jobs: tuple[str, ...] | None = None,
) -> None:
    """Signed in, on the fleet or on a job."""
    page.goto(f"{served.url}/#token={served.token(role, jobs)}")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    if where:
        page.goto(f"{served.url}/#/jobs/{where}")
        expect(page.get_by_role("heading", name=where, level=1)).to_be_visible()
