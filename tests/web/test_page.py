"""The page, in a real browser: what an operator sees of the fleet, signed in, on any screen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from estimator.fleet import JobId, Node
from services.access.role import Role
from services.control.fleet_packing import NodeSeats
from services.controller.usher import Waiting, WaitReason
from tests.waiting import eventually
from tests.web.conftest import Served
from tests.web.visiting import visit

pytestmark = pytest.mark.timeout(300)


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


def test_machines_are_shown_with_who_is_on_them_and_who_waits_for_one(page: Page, served: Served) -> None:
    served.tick()
    fleet = served.rig.controller.fleet
    state = fleet.state()
    assert state is not None
    rack, job = Node("n1", "a100", 8, ("rack-1",)), JobId("", "clicks")
    seats = NodeSeats(rack, lost=False, workers={job: 5}, taken=5.0), NodeSeats(rack, True, {}, 0.0)
    waiting = (Waiting("clicks-x2", "clicks", 23.0, WaitReason.KEPT),)
    told = replace(state, nodes=seats, batch_nodes={"n1": 2}, waiting=waiting, trouble="it waits")
    fleet.state = lambda: told
    visit(page, served)

    nodes = page.get_by_role("table", name="Nodes")
    expect(nodes.get_by_role("row", name="n1").first).to_contain_text("5 of 8")
    expect(nodes.get_by_role("row", name="n1").first).to_contain_text("clicks 5, batch 2")
    expect(nodes.get_by_role("row", name="n1").last).to_contain_text("lost")
    gate = page.get_by_role("table", name="Waiting for a node").get_by_role("row", name="clicks-x2")
    expect(gate).to_contain_text("guarantees need all of it")
    expect(page.get_by_role("alert")).to_have_text("it waits")


def test_another_budget_can_be_tried_and_what_was_typed_stays(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served)
    gpus = page.get_by_label("GPUs of a100")
    gpus.fill("3")
    page.get_by_role("button", name="Who would suffer?").click()

    mine = page.get_by_role("table", name="With that budget").get_by_role("row", name="clicks")
    expect(mine).to_contain_text("60 %")
    with page.expect_response(re.compile("/v1/fleet$")):
        served.tick(rate=600, coming=700)
    expect(gpus).to_have_value("3")

    gpus.fill("16")
    page.get_by_role("button", name="Who would suffer?").click()
    expect(page.get_by_text("That is what there is now.")).to_be_visible()


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

    page.get_by_label("Token").fill("pst_wrong…")  # which no header can carry
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")

    page.get_by_label("Token").fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_viewer_sees_all_and_is_offered_nothing(page: Page, served: Served) -> None:
    served.tick()
    visit(page, served, "clicks", Role.VIEWER)

    expect(page.get_by_text("Your token may look, not change.")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    expect(page.get_by_label("Trained within", exact=True)).to_be_disabled()


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
