"""The page, in a real browser: what an operator sees when things go wrong."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from services.controller.desk import Caller
from tests.api.sites import FragileStream
from tests.web.conftest import Served
from tests.web.visiting import visit

pytestmark = pytest.mark.timeout(300)

ANN = Caller("ann", "admin")


def test_trouble_is_said_on_top(page: Page, served: Served) -> None:
    visit(page, served, "clicks")

    expect(page.get_by_role("alert")).to_contain_text("not observed yet")
    expect(page.get_by_role("heading", name="No decision yet")).to_be_visible()
    served.tick()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_lost_connection_is_said_and_taken_up_again(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    expect(page.locator("#live")).to_have_text("Live")

    served.run(served.rig.site.events.close)
    expect(page.locator("#live")).to_have_text("Reconnecting…")
    expect(page.get_by_role("alert")).to_contain_text("The connection to the controller is lost")
    served.tick(rate=321)

    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator(".tile").first).to_contain_text("321/s", timeout=40_000)


def test_a_store_that_does_not_answer_is_said_and_so_is_its_return(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    expect(page.locator("#live")).to_have_text("Live")
    log = served.rig.jobs.events
    assert isinstance(log, FragileStream)

    log.away = "Redis at nowhere: XREAD failed"
    expect(page.get_by_role("alert")).to_contain_text("The store does not answer")
    expect(page.get_by_role("alert")).to_contain_text("Redis at nowhere")
    expect(page.locator("#live")).to_have_text("No news")
    expect(page.locator(".job-head .pill").first).to_have_text("No news")

    log.away = ""
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("where", ["", "clicks"])
def test_ticks_that_do_not_come_are_said_until_one_comes(page: Page, served: Served, where: str) -> None:
    page.clock.install()
    served.tick()
    served.tick()
    visit(page, served, where)
    expect(page.locator("#live")).to_have_text("Live")

    page.clock.fast_forward(20_000)
    expect(page.get_by_role("alert")).to_contain_text("No tick")
    expect(page.locator("#live")).to_have_text("No news")
    expect(page.locator(".pill").first).to_have_text("No news")

    served.tick()
    page.clock.fast_forward(3_000)
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_reading_that_failed_once_is_not_told_for_ever(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    page.route("**/v1/jobs/clicks", lambda route: route.fulfill(status=503, json={"detail": "not now"}))
    served.run(served.rig.controller.desk.pause, "clicks", ANN, reason="")
    expect(page.get_by_role("alert")).to_contain_text("What you see may be old: not now")

    page.unroute("**/v1/jobs/clicks")
    served.run(served.rig.controller.desk.resume, "clicks", ANN)

    expect(page.get_by_role("alert")).to_have_count(0)


def test_no_promise_is_called_kept_while_more_samples_were_late_than_may_be(
    page: Page, served: Served
) -> None:
    served.tick()
    visit(page, served)
    tile = page.locator(".tile").filter(has_text="Late now")
    expect(tile).to_contain_text("every promise is kept")

    served.rig.controller.late_share = 0.17
    page.reload()

    expect(tile).to_contain_text("1 had more late than may be")


def test_the_late_share_of_the_fleet_follows_the_ticks(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served)
    row = page.get_by_role("row").filter(has_text="clicks-raw")
    expect(row).to_contain_text("0.5 %")

    served.tick(late_share=0.31)

    expect(row).to_contain_text("31 %")


def test_a_paused_job_that_is_late_shows_both(page: Page, served: Served) -> None:
    served.tick(lag_s=900)
    served.run(served.rig.controller.desk.pause, "clicks", ANN, reason="")
    visit(page, served, "clicks")

    expect(page.locator(".job-head .pill")).to_have_text(["Late", "Paused"])


def test_a_curve_that_cannot_be_played_leaves_the_verdict(page: Page, served: Served) -> None:
    served.tick()
    page.route(
        "**/what-if",
        lambda route: (
            route.fulfill(status=503, json={"detail": "too busy"})
            if route.request.post_data_json["curve"]
            else route.continue_()
        ),
    )
    visit(page, served, "clicks")

    card = page.get_by_role("region", name="Freshness promised")
    expect(card).to_contain_text("no curve: too busy")
    expect(page.locator(".verdict")).to_contain_text("GPU-hours a day")
    expect(page.locator(".verdict")).to_contain_text("For the promise in force it says 0.5 %")


def test_an_unknown_job_is_said_to_be_unknown(page: Page, served: Served) -> None:
    visit(page, served)
    page.goto(f"{served.url}/#/jobs/nothing")

    expect(page.get_by_role("alert")).to_contain_text("no job is called 'nothing'")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_a_fleet_without_jobs_says_how_to_make_one(page: Page, served: Served) -> None:
    visit(page, served)
    for job in ("clicks", "views"):
        page.evaluate(
            """async (job) => { await fetch('/v1/jobs/' + job, {method: 'DELETE', headers: {'If-Match': '*',
            Authorization: 'Bearer ' + sessionStorage.getItem('penstock-token')}}) }""",
            job,
        )

    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()


def test_an_address_that_names_no_job_is_said(page: Page, served: Served) -> None:
    visit(page, served)
    page.goto(f"{served.url}/#/jobs/%E0%A4%A")

    expect(page.get_by_role("alert")).to_contain_text("The request cannot be understood")


def test_a_view_that_was_left_while_it_was_read_is_not_shown(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served)
    held: list[Route] = []
    page.route("**/v1/jobs/clicks", lambda route: held.append(route))  # noqa: PLW0108 - a method cannot be marked
    with page.expect_request("**/v1/jobs/clicks"):
        page.goto(f"{served.url}/#/jobs/clicks")
    page.goto(f"{served.url}/#/")
    expect(page.get_by_role("heading", name="Fleet", level=1)).to_be_visible()

    with page.expect_response("**/v1/jobs/clicks/series*"):
        for route in held:
            route.continue_()
    served.tick(rate=321)
    expect(page.get_by_role("row").filter(has_text="321/s")).to_be_visible()
    expect(page.get_by_role("heading", name="Fleet", level=1)).to_be_visible()
