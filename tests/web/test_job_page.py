"""The page of a job, in a real browser: why it has its size, and everything an operator does about it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from services.access.role import Role
from services.api.examples import ROLLBACK
from tests.web.conftest import Served
from tests.web.visiting import visit

pytestmark = pytest.mark.timeout(300)


def test_a_job_shows_why_and_what_else_there_was(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")

    expect(page.get_by_role("heading", name="5 workers: forecast rise")).to_be_visible()
    expect(page.get_by_text("More traffic is forecast than the pool can train.").first).to_be_visible()
    page.get_by_text("What other sizes would mean").click()
    expect(page.get_by_role("row", name=re.compile(r"^5 \(the plan\)"))).to_be_visible()
    expect(page.get_by_text("Bottleneck: workers")).to_be_visible()
    expect(page.get_by_text("4 partitions on 2 workers")).to_be_visible()
    expect(page.get_by_text("not reported")).to_be_visible()


def test_charts_are_read_with_the_pointer_and_with_the_keys(page: Page, served: Served) -> None:
    for rate in (400, 450, 500):
        served.tick(rate=rate)
    visit(page, served, "clicks")
    chart = page.get_by_role("img", name=re.compile("^Traffic and forecast"))

    expect(chart).to_have_attribute("aria-label", re.compile("arrived 500/s"))
    chart.focus()
    page.keyboard.press("Home")
    tip = page.locator(".tip:visible")
    expect(tip).to_contain_text("400/s")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("450/s")
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)
    expect(tip).to_be_visible()


def test_the_cost_is_shown_before_a_promise_can_be_saved(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    save = page.get_by_role("button", name="Save the promise")
    expect(page.locator(".verdict")).to_contain_text("GPU-hours a day")
    expect(save).to_be_disabled()

    page.get_by_label("Trained within", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(save).to_be_disabled()
    expect(page.locator(".verdict")).to_contain_text("against now")
    expect(save).to_be_enabled()
    save.click()

    expect(page.get_by_text("Saved. It holds from the next tick on.")).to_be_visible()
    assert served.rig.controller.jobs["clicks"].settings.slo.fresh_within_s == 30


def test_a_promise_that_somebody_else_changed_is_not_overwritten(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    expect(page.locator(".verdict")).to_contain_text("GPU-hours a day")
    page.get_by_label("Fresh within, in seconds").fill("12")
    save = page.get_by_role("button", name="Save the promise")
    expect(save).to_be_enabled()
    page.route(
        "**/v1/jobs/clicks/slo",
        lambda route: route.continue_(headers={**route.request.headers, "if-match": '"999"'}),
    )

    save.click()

    expect(page.get_by_text("Somebody else changed the job meanwhile")).to_be_visible()
    assert served.rig.controller.jobs["clicks"].settings.slo.fresh_within_s == 60
    page.unroute("**/v1/jobs/clicks/slo")
    save.click()
    expect(page.get_by_text("Saved. It holds")).to_be_visible()


def test_the_size_is_overridden_and_given_back(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    page.get_by_label("Workers (1–8)").fill("6")
    page.get_by_label("For", exact=True).select_option("4 hours")
    page.get_by_label("Why").fill("a campaign")
    page.get_by_role("button", name="Override", exact=True).click()

    expect(page.get_by_text(re.compile("6 workers until .* a campaign"))).to_be_visible()
    assert served.rig.controller.jobs["clicks"].override is not None
    page.get_by_role("button", name="End the override").click()
    expect(page.get_by_label("Why")).to_be_visible()
    assert served.rig.controller.jobs["clicks"].override is None


def test_a_job_is_paused_resumed_and_switched_to_recommend(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")

    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text(re.compile("^Paused .* by admin-test"))).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    switch = page.get_by_role("switch", name="Carry decisions out")
    switch.focus()
    page.keyboard.press("Space")
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(page.get_by_text("Recommends only").first).to_be_visible()


def test_a_decision_made_while_the_page_is_read_is_on_it_once(page: Page, served: Served) -> None:
    served.tick()

    def meanwhile(route: Route) -> None:
        read = route.fetch()
        served.tick(rate=600)
        route.fulfill(response=read)

    page.route("**/v1/jobs/clicks/decisions*", meanwhile, times=1)
    visit(page, served, "clicks")

    expect(page.locator(".timeline > li")).to_have_count(2)


def test_decisions_come_live_with_their_numbers_and_are_filtered(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    entries = page.locator(".timeline > li")
    expect(entries).to_have_count(1)
    served.tick(rate=600)
    expect(entries).to_have_count(2)

    entries.first.locator("summary").click()
    expect(entries.first.locator("dl")).to_contain_text("rate600/s")
    page.get_by_label("Show", exact=True).select_option("forecast rise")
    expect(entries).to_have_count(1)


def test_the_numbers_of_a_decision_are_shown_on_hover_and_on_focus(page: Page, served: Served) -> None:
    served.tick(rate=600)
    visit(page, served, "clicks")
    summary = page.locator(".timeline > li summary").first
    tip = page.locator(".decision-tip")

    summary.hover()
    expect(tip).to_contain_text("More traffic is")
    expect(tip).to_contain_text("rate600/s")
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    summary.focus()
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.locator(".timeline > li dl").first).to_be_visible()
    expect(tip).to_be_hidden()


def test_older_decisions_are_reached_from_the_timeline(page: Page, served: Served) -> None:
    for rate in range(30):
        served.tick(rate=450 + rate)
    visit(page, served, "clicks")
    entries = page.locator(".timeline > li")

    expect(entries).to_have_count(25)
    page.get_by_role("button", name="Older decisions").click()
    expect(entries).to_have_count(30)
    expect(page.get_by_role("button", name="Older decisions")).to_be_hidden()


def test_charts_show_what_is_near_or_all_that_is_kept(page: Page, served: Served) -> None:
    for rate in range(200):
        served.rig.controller.tick(rate=450 + rate, coming=None)
    served.tick(rate=900, coming=None)
    visit(page, served, "clicks")
    chart = page.get_by_role("img", name=re.compile("^Workers"))
    tip = page.locator(".tip:visible")

    def first_shown() -> str:
        chart.focus()
        page.keyboard.press("Home")
        text = tip.locator("strong").inner_text()
        page.keyboard.press("Escape")
        return text

    near = first_shown()
    page.get_by_label("Charts show").select_option("all that is kept")

    assert first_shown() < near


def test_points_of_the_curve_that_lie_above_one_another_are_all_reached(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    card = page.get_by_role("region", name="Freshness promised")
    expect(card).to_contain_text("dots: the rule at other settings")
    page.route("**/what-if", _all_on_time)
    page.get_by_label("Trained within", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".verdict")).to_contain_text("against now")
    expect(card).to_contain_text("dots: the rule at other settings")
    card.locator("svg.chart").focus()

    told = set()
    page.keyboard.press("Home")
    for _ in range(4):
        told.add(card.locator(".tip").inner_text())
        page.keyboard.press("ArrowRight")

    assert len(told) == 4


def _all_on_time(route: Route) -> None:
    """The server's answer, with nothing late at any setting."""
    answer = route.fetch()
    told = answer.json()
    for point in (told["asked"], told["in_force"], *told["curve"]):
        point["late_share"] = 0.0
    route.fulfill(response=answer, json=told)


def test_resizes_are_shown_with_what_became_of_them(page: Page, served: Served) -> None:
    served.tick(rate=450)
    visit(page, served, "clicks")

    card = page.get_by_role("region", name="Resizes")
    expect(card).to_contain_text("1 of 360 within the hour, 1 of 2,000 within the day.")
    expect(card.locator(".trail li")).to_have_count(1)
    expect(card.locator(".trail li")).to_contain_text("2 → ")
    expect(card.locator(".trail li")).to_contain_text("asked")


def test_models_are_gone_back_from_with_a_reason(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    card = page.get_by_role("region", name="Forecasting models")
    version = ROLLBACK["version"]
    expect(card.get_by_text(f"Version {version} serves: patchtst.")).to_be_visible()

    card.get_by_label("Reason to go back").fill("it misses every peak")
    served.tick()
    expect(card.get_by_label("Reason to go back")).to_have_value("it misses every peak")
    card.get_by_role("button", name="Go back").click()

    expect(page.get_by_text(f"Version {version} serves no more from the next step on.")).to_be_visible()
    expect(card.get_by_role("button", name="Go back")).to_be_hidden()
    rollback = served.rig.controller.jobs["clicks"].rollback
    assert rollback is not None
    assert (rollback.version, rollback.reason) == (version, "it misses every peak")
    before = served.rig.controller.training
    served.rig.controller.training = before.model_copy(update={"version": "1", "rolled_back": version})
    page.reload()
    expect(
        card.get_by_text(re.compile(f"^Gone back from version {version} .* by admin-test"))
    ).to_be_visible()
    expect(card.get_by_role("button", name="Go back")).to_be_visible()


@pytest.mark.parametrize(("role", "jobs"), [(Role.OPERATOR, ("clicks",)), (Role.VIEWER, None)])
def test_going_back_is_not_offered_to_whom_it_is_refused(
    page: Page, served: Served, role: Role, jobs: tuple[str, ...] | None
) -> None:
    served.tick()
    visit(page, served, "clicks", role, jobs)
    card = page.get_by_role("region", name="Forecasting models")

    expect(card.get_by_text(f"Version {ROLLBACK['version']} serves: patchtst.")).to_be_visible()
    expect(card.get_by_role("button", name="Go back")).to_be_hidden()
