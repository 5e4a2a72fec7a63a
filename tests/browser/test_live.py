"""Each live picture, used as a reader uses it: on a desktop, on a phone, in the dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from .conftest import MODES, SITE

CHAPTERS = {
    "gates": "lstm",
    "flow": "gradients",
    "align": "attention",
    "cost": "transformer",
    "scan": "other_cells",
}
WIDE = "() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module", params=MODES)
def visit(request, browser, site) -> Iterator[Callable]:
    """Opens a picture's page; at the end nothing has been written on any console."""
    context = browser.new_context(**MODES[request.param])
    context.set_default_timeout(10_000)
    bad: list[str] = []

    def opened(name: str, **media: str):
        page = context.new_page()
        page.emulate_media(**media)
        page.on("pageerror", lambda e: bad.append(f"script: {e}"))
        page.on("console", lambda m: m.type == "error" and bad.append(f"console: {m.text}"))
        page.goto(f"{site}/book/{CHAPTERS[name]}.html", wait_until="load")
        live = page.locator(f'[data-live="{name}"][data-ready="yes"]')
        live.wait_for()
        return page, live

    def finished(page) -> None:
        wide = page.evaluate(WIDE)
        page.close()
        assert not bad, bad
        assert wide <= 0, f"the page is {wide} px wider than the screen"

    opened.finished = finished  # type: ignore[attr-defined]
    yield opened
    context.close()


def said(live) -> str:
    return live.get_by_role("status").inner_text().replace("\u00a0", " ")


def test_gates(visit):
    page, live = visit("gates")
    box = live.get_by_label("Type here")
    box.fill("")
    assert said(live) == "Type something. Below are the letters that are likely to begin a line."
    box.press_sequentially("Good morrow, my lor")
    assert said(live).startswith("19 letters; forget gate f: mean 0.")
    trace = "() => document.querySelector('.live').liveTrace().map(s => s.character).join('')"
    assert page.evaluate(trace) == "\nGood morrow, my lor"
    first = live.get_by_role("row").first.inner_text().split()
    assert first[0] == "d" and int(first[1].rstrip("%")) > 50  # lord
    hold = live.get_by_label("Hold f at").get_by_role("option")
    assert hold.all_inner_texts() == ["free", "0", "¼", "½", "¾", "1"]
    free = float(re.search(r"surprise of ([\d.]+) bits", said(live))[1])
    live.get_by_label("Hold f at").select_option("0")
    assert "mean 0.00 over all units" in said(live)
    now, before = map(
        float, re.search(r"of ([\d.]+) bits.*held, of ([\d.]+)\.", said(live)).groups()
    )
    assert before == free and now > free  # without a memory the text is a greater surprise
    assert live.get_by_role("table").count() == 2
    live.get_by_label("in", exact=True).select_option("one")
    live.get_by_label("Unit", exact=True).fill("7")
    assert "0.00 in unit 7" in said(live) and "mean 0.00" not in said(live)
    live.locator("canvas").click(position={"x": 5, "y": 20 + 3 * 9 + 1})  # above them, the letters
    assert live.get_by_label("Unit", exact=True).input_value() == "9"
    live.get_by_label("Hold f at").select_option("")
    assert live.get_by_text("orange is open").is_visible()
    live.get_by_label("Show", exact=True).select_option("c")
    assert "cell state c: mean" in said(live) and "no gate held" not in said(live)
    box.fill("né\t漢 é")
    assert "has never read é tab 漢, and takes" in said(live)
    box.fill("")
    box.focus()
    page.keyboard.insert_text("a" * 10_000)
    assert said(live).startswith("160 letters") and "room for 160 characters" in said(live)
    visit.finished(page)


def test_gates_follow_the_theme(visit):
    page, live = visit("gates")
    pixels = "() => document.querySelector('.live canvas').toDataURL()"
    seen = []
    for theme in ("light", "dark"):
        page.evaluate(f"() => document.documentElement.dataset.theme = '{theme}'")
        page.wait_for_timeout(50)
        seen.append(page.evaluate(pixels))
    assert seen[0] != seen[1]
    visit.finished(page)


def test_flow(visit):
    page, live = visit("flow")
    size = live.get_by_label("Size of the eigenvalue")
    size.fill("0.5")
    assert "|λ| = 0.500: halves at each step" in said(live)
    size.focus()
    page.keyboard.press("ArrowRight")
    assert "|λ| = 0.505" in said(live)
    live.get_by_label("Lag").fill("8")
    size.fill("1")
    assert "neither fades nor grows" in said(live) and "after 8 steps 100% is left" in said(live)
    live.get_by_label("Bias").fill("0")
    assert "σ(b) = 0.500: halves at each step; after 8 steps 0.39% is left" in said(live)
    handle = live.locator(".live-handle")
    handle.scroll_into_view_if_needed()
    box = live.get_by_role("img", name="The complex plane").bounding_box()
    start = handle.bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * (0.5 - 0.25 / 1.3))
    page.mouse.up()
    assert abs(float(size.input_value()) - 0.5) < 0.03
    assert abs(float(live.get_by_label("Angle").input_value()) - 90) < 4
    live.get_by_label("Scale", exact=True).select_option("linear")
    assert live.get_by_role("img", name="linear scale").is_visible()
    # what leaves the frame is cut at it: every step of the curve stands in the line
    size.fill("1.05")
    line = live.locator("path[stroke-dasharray='5 4']")
    assert len(re.findall("[ML]", line.get_attribute("d"))) == 101
    clip = line.locator("..").get_attribute("clip-path").removeprefix("url(#").rstrip(")")
    assert live.locator(f"clipPath[id='{clip}']").count() == 1
    live.get_by_label("Lag").fill("1")
    assert "after 1 step 105% is left" in said(live)
    live.get_by_label("Lag").fill("100")
    assert "after 100 steps there is 132 times as much" in said(live)  # 1.05^100 = 131.5
    size.fill("0")
    assert "gone after one step; after 100 steps nothing is left" in said(live)
    visit.finished(page)


def test_flow_by_touch(visit):
    page, live = visit("flow")
    if page.evaluate("navigator.maxTouchPoints") == 0:
        pytest.skip("no finger here")
    plane = live.get_by_role("img", name="can be dragged, or moved")
    plane.scroll_into_view_if_needed()
    top, box = page.evaluate("scrollY"), plane.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    start = live.locator(".live-handle").bounding_box()
    assert start["width"] >= 24
    at = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
    aim = middle[0], middle[1] - box["height"] * 0.25 / 1.3  # |λ| = 0.5, straight up
    finger = page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        here = [{"x": x, "y": y} for x, y in points]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": here})

    touch("touchStart", at)
    for k in range(1, 11):
        touch("touchMove", tuple(a + (b - a) * k / 10 for a, b in zip(at, aim, strict=True)))
    touch("touchEnd")
    assert abs(float(live.get_by_label("Size of the eigenvalue").input_value()) - 0.5) < 0.03
    assert abs(float(live.get_by_label("Angle").input_value()) - 90) < 4
    assert page.evaluate("scrollY") == top  # the page stays where it is
    assert live.get_by_label("Lag").bounding_box()["height"] >= 24  # sliders, too, for fingers
    visit.finished(page)


def test_align(visit):
    page, live = visit("align")
    live.get_by_label("A word").fill("cat")
    assert said(live).startswith("cat: K AE T end.")
    live.get_by_role("button", name="From the start").click()
    assert said(live) == "cat is read. Nothing is written yet."
    live.get_by_role("button", name="Next phoneme").press("Enter")
    assert re.search(r"cat: K\. Step 1: K \(\d+%\) looks most at c, letter 1", said(live))
    live.get_by_role("button", name="Next phoneme").press("Enter")
    assert live.get_by_role("img", name="Alignment of cat: K AE").is_visible()
    live.get_by_role("button", name="All").click()
    assert said(live).startswith("cat: K AE T end.")
    assert "stopped" not in said(live)
    live.get_by_label("A word").fill("Ünï ç7")  # a letter without its marks
    assert said(live).startswith("unic: ") and said(live).endswith(
        "Left out: space 7 (it knows a to z)."
    )
    live.get_by_label("A word").fill("antidisestablishmentaria")
    stopped = "It was stopped after 30 phonemes: it did not find the end."
    assert said(live).endswith(f"{stopped} There is room for 24 characters.")
    live.get_by_role("button", name="From the start").click()
    live.get_by_role("button", name="Next phoneme").click()
    assert "Step 1:" in said(live) and "stopped" not in said(live)
    live.get_by_label("A word").fill("freightliner")  # all its letters in sight, on a phone too
    assert live.get_by_role("region").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    live.get_by_label("A word").fill("")
    assert said(live) == "Type a word of the letters a to z."
    visit.finished(page)


def test_cost(visit):
    page, live = visit("cost")
    sizes = live.get_by_label("Bytes a number").get_by_role("option")
    assert [text[0] for text in sizes.all_inner_texts()] == ["4", "2", "1"]
    for label, value in {
        "Width": "128",
        "Layers": "1",
        "Heads": "4",
        "Key-value heads": "4",
    }.items():
        live.get_by_label(label, exact=True).fill(value)
    live.get_by_label("Bytes a number").select_option("4")
    live.get_by_label("Tokens so far", exact=True).fill("14")
    row = live.get_by_role("row", name="attention with cache")
    assert row.inner_text().split("\t")[1].strip() == "16.1 MiB"  # as bench_scaling recorded it
    lstm = live.get_by_role("row", name="LSTM").inner_text().split("\t")
    assert [part.strip() for part in lstm[1:]] == ["1 KiB", "1 token"]
    live.get_by_label("Heads", exact=True).fill("5")
    assert "key-value heads (4) must divide the heads (5)" in said(live)
    live.get_by_label("Heads", exact=True).fill("4")
    live.get_by_label("Layers", exact=True).fill("1e300")  # as many as the control allows
    assert "LSTM" in live.get_by_role("row", name="1 MiB").inner_text()
    assert "out of its range" in said(live)
    live.get_by_label("Layers", exact=True).fill("1")
    assert "out of its range" not in said(live)
    for kind in ("step", "train", "peak"):
        live.get_by_label("Show", exact=True).select_option(kind)
        assert live.get_by_role("img", name="recorded").is_visible()
        assert "one CPU, recorded 20" in said(live)
        cached = live.get_by_role("row", name="attention with cache").count()
        assert cached == (kind == "step")  # nothing is cached in training
        assert ("took turns with attention" in said(live)) == (kind == "step")
        # no two lines look alike
        looks = """paths => paths.map(p => p.style.stroke + p.getAttribute("stroke-dasharray"))"""
        lines = live.locator(".live-line").evaluate_all(looks)
        assert len(lines) == len(set(lines)) == live.get_by_role("row").count() - 1 >= 10
    live.get_by_label("Show", exact=True).select_option("step")
    live.get_by_label("Tokens so far", exact=True).fill("20")
    assert "no layer was recorded at this length" in said(live)
    visit.finished(page)


@pytest.mark.parametrize("name", ["align", "cost"])
def test_a_phone_is_turned(visit, name):
    """What was drawn for one width is drawn for the other, and nothing else changes."""
    page, live = visit(name)
    image = live.get_by_role("img").first
    page.set_viewport_size({"width": 844, "height": 390})
    if name == "align":
        live.get_by_label("A word").fill("interconnectednesses")
        live.get_by_role("button", name="From the start").click()
        live.get_by_role("button", name="Next phoneme").click()
    page.wait_for_timeout(200)
    wide, text = int(image.get_attribute("width")), said(live)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(
        "([e, wide]) => e.querySelector('svg').width.baseVal.value < wide",
        arg=[live.element_handle(), wide],
    )
    assert said(live) == text
    visit.finished(page)


def test_scan(visit):
    page, live = visit("scan")
    live.get_by_label("Steps T").select_option("16")
    for order, rounds, joins in (("loop", 15, 15), ("chunks", 7, 24), ("tree", 7, 26)):
        live.get_by_label("Order").select_option(order)
        assert said(live).startswith(f"{order}, round 0 of {rounds}: 0 of {joins} joins done")
        for _ in range(rounds):
            live.get_by_role("button", name="Next round").press("Enter")
        assert f"{joins} of {joins} joins done" in said(live)
        assert "16 of 16 steps know their state" in said(live)
    live.get_by_role("button", name="Back").click()
    assert "round 6 of 7" in said(live)
    live.get_by_role("button", name="From the start").click()
    live.get_by_role("button", name="Play").click()
    live.get_by_text("round 2 of 7").wait_for()
    live.get_by_role("button", name="Pause").click()
    visit.finished(page)


def test_scan_without_motion(visit):
    page, live = visit("scan", reduced_motion="reduce")
    live.get_by_label("Order").select_option("tree")
    live.get_by_role("button", name="All rounds").click()
    assert re.search(r"round (\d+) of \1:", said(live))
    visit.finished(page)


def test_steps_are_the_package_s(browser, site):
    """What the page computes in this browser, against the package in float64."""
    torch = pytest.importorskip("torch")
    from ..test_live import WORDS, lstm, speller

    with torch.no_grad():
        steps = lstm("\nTo be, or not to be")["steps"]
        rows = speller(WORDS[:3])
    page = browser.new_page()
    page.goto(f"{site}/book/{CHAPTERS['gates']}.html")
    page.get_by_label("Type here").fill("To be, or not to be")
    get = """() => document.querySelector('[data-live="gates"]').liveTrace().map(s =>
        Object.fromEntries(Object.entries(s).map(([k, v]) => [k, v?.length > 1 ? [...v] : v])))"""
    found = page.evaluate(get)
    assert len(found) == len(steps)
    for step, wanted in zip(found, steps, strict=True):
        for name in ("i", "f", "g", "o", "c", "h"):
            assert step[name] == pytest.approx(wanted[name], abs=1e-5)
    page.goto(f"{site}/book/{CHAPTERS['align']}.html")
    get = """() => document.querySelector('[data-live="align"]').liveRows().map(r =>
        [r.phoneme, r.p, [...r.weights]])"""
    for row in rows:
        page.get_by_label("A word").fill(row["word"])
        phonemes, p, weights = zip(*page.evaluate(get), strict=True)
        assert list(phonemes) == row["phonemes"]
        assert p == pytest.approx(row["p"], abs=1e-5)
        for ours, wanted in zip(weights, row["weights"], strict=True):
            assert ours == pytest.approx(wanted, abs=1e-5)
    page.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_without_scripts(browser, site, name):
    """A picture and a sentence stand there."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/book/{CHAPTERS[name]}.html")
    live = page.locator(f'[data-live="{name}"]')
    image = live.get_by_role("img")
    image.scroll_into_view_if_needed()
    assert image.is_visible() and len(image.get_attribute("alt")) > 20
    assert "scripts" in live.inner_text()
    assert image.evaluate("e => getComputedStyle(e).display") == "block"  # no word beside it
    context.close()


def test_from_a_folder(browser):
    """Opened as a file, without a server."""
    page = browser.new_page()
    for name, chapter in CHAPTERS.items():
        page.goto((SITE / f"book/{chapter}.html").as_uri())
        page.locator(f'[data-live="{name}"][data-ready="yes"]').wait_for()
    page.goto((SITE / "book/intro.html").as_uri())
    assert page.locator('script[src*="live/"]').count() == 0
    page.close()
