"""The page, in a real browser: everything an operator does, and what they see when things go wrong."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from services.access.role import Role
from services.controller.desk import Caller
from tests.api.sites import FragileStream
from tests.waiting import eventually
from tests.web.conftest import Served

pytestmark = pytest.mark.timeout(300)

ANN = Caller("ann", "admin")


def visit(page: Page, served: Served, where: str = "", role: Role = Role.ADMIN) -> None:
    """Signed in, on the fleet or on a job."""
    page.goto(f"{served.url}/#token={served.token(role)}")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    if where:
        page.goto(f"{served.url}/#/jobs/{where}")
        expect(page.get_by_role("heading", name=where, level=1)).to_be_visible()


def test_the_fleet_is_shown_and_follows_the_ticks(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served)
    row = page.get_by_role("row").filter(has_text="clicks-raw")

    expect(row).to_contain_text("450/s")
    expect(page.locator("#live")).to_have_text("Live")
    served.tick(rate=777)
    expect(row).to_contain_text("777/s")


def test_shared_gpus_are_shown_with_what_bound_each_job(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served)

    expect(page.get_by_role("table", name="GPU types").get_by_role("row", name="a100")).to_contain_text("16")
    mine = page.get_by_role("table", name="Shares").get_by_role("row", name="clicks")
    expect(mine).to_contain_text("nothing")
    expect(mine).to_contain_text("100")


def test_the_token_leaves_the_address_at_once(page: Page, served: Served) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
    visit(page, served)

    assert "pst_" not in page.url
    assert not [url for url in asked if "pst_" in url]


def test_without_a_token_one_signs_in_and_out(page: Page, served: Served) -> None:
    text = served.token()
    page.goto(served.url)
    page.get_by_label("Token").fill("pst_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")

    page.get_by_label("Token").fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


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


def test_a_viewer_sees_all_and_is_offered_nothing(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks", Role.VIEWER)

    expect(page.get_by_text("Your token may look, not change.")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    expect(page.get_by_label("Trained within", exact=True)).to_be_disabled()


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


@pytest.mark.parametrize(
    ("where", "place"),
    [("clicks", ".timeline > li summary"), ("clicks", ".why summary"), ("", ".job-link")],
    ids=["a decision", "other sizes", "a job of the fleet"],
)
def test_the_keyboard_stays_where_it_is_while_ticks_come(
    page: Page, served: Served, where: str, place: str
) -> None:
    served.tick()
    visit(page, served, where)
    page.locator(place).last.focus()
    kept = page.evaluate("document.activeElement.textContent")

    served.tick(rate=612)
    expect(page.locator(".tiles")).to_contain_text("612/s")

    assert page.evaluate("document.activeElement.textContent") == kept


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


def test_shared_gpus_follow_the_decisions(page: Page, served: Served) -> None:
    served.tick(rate=100)
    visit(page, served)
    expect(page.locator("#live")).to_have_text("Live")

    with page.expect_request(re.compile("/v1/fleet$")):
        served.tick(rate=900, coming=2000)


def test_on_a_phone_one_jumps_to_the_promise(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    served.tick()
    visit(page, served, "clicks")

    page.get_by_role("button", name="Promise", exact=True).click()

    expect(page.get_by_label("Trained within", exact=True)).to_be_in_viewport()
    expect(page.get_by_label("Trained within", exact=True)).to_be_focused()


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 768, 1280])
def test_nothing_overflows_and_text_can_be_read(page: Page, served: Served, width: int, scheme: str) -> None:
    served.tick()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 800})
    for where in ("", "clicks"):
        visit(page, served, where)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(LOWEST_CONTRAST) >= 4.5, "a text is too faint"


LOWEST_CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (el) => { for (; el; el = el.parentElement) {
    const c = rgb(getComputedStyle(el).backgroundColor);
    if (c.length < 4 || c[3] > 0.9) return c; } return [255, 255, 255]; };
  let lowest = 21;
  for (const el of document.querySelectorAll('main *, header *')) {
    const own = [...el.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !el.checkVisibility() || el.closest('svg, .hidden, :disabled, option')) continue;
    const [a, b] = [light(rgb(getComputedStyle(el).color)), light(ground(el))].sort((x, y) => y - x);
    lowest = Math.min(lowest, (a + 0.05) / (b + 0.05));
  }
  return lowest;
}"""


def test_everything_can_be_reached_with_the_keyboard(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks")
    reached = set()
    page.locator("body").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))

    assert {
        "theme",
        "leave",
        "svg",
        "SUMMARY",
        "fresh",
        "fresh-s",
        "target",
        "mode",
        "pause",
        "size",
        "why",
    } <= reached


def test_nothing_is_fetched_from_elsewhere(page: Page, served: Served) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    served.tick()
    visit(page, served, "clicks")

    assert asked
    assert all(url.startswith(served.url) for url in asked)


def test_names_and_reasons_are_text_never_markup(page: Page, served: Served) -> None:
    served.tick()
    client = served.rig.client(served.token())
    client.post("/v1/jobs/clicks/pause", json={"reason": "<img src=x onerror=alert(1)><b>bold</b>"})
    visit(page, served, "clicks")

    expect(page.get_by_text("<b>bold</b>")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0


def test_the_theme_is_switched_and_kept(page: Page, served: Served) -> None:
    visit(page, served)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.reload()

    eventually(
        lambda: page.evaluate("document.documentElement.dataset.theme") == "dark", what="the theme kept"
    )


def test_resizes_are_shown_with_what_became_of_them(page: Page, served: Served) -> None:
    served.tick(rate=450)
    visit(page, served, "clicks")

    card = page.get_by_role("region", name="Resizes")
    expect(card).to_contain_text("1 of 360 within the hour, 1 of 2,000 within the day.")
    expect(card.locator(".trail li")).to_have_count(1)
    expect(card.locator(".trail li")).to_contain_text("2 → ")
    expect(card.locator(".trail li")).to_contain_text("asked")
