#!/usr/bin/python3
"""memwall report: its page as a file, and in a browser (Chromium); prints TAP.

refused     input that is no result, cut off, or of another version: one line, and no page.
kinds       each kind of result has its sections.
inert       markup in names and notes is text; what the page may load is nothing.
ended       a signal ends it with the status of that, and no file is left.
same        the same bytes from the same files, whatever their folder; a page is well-formed.
figures     figures and dates of the page are those of the results.
shown       light and dark, wide and on a phone: no error, no request, no overflow, text that can
            be read.
sorted      a click on a column's name sorts the table.
zoomed      a timeline is zoomed by buttons, keys, mouse and wheel, and says what an op is.
large       100,000 ops: a small page, and no more than two bars per pixel; many rows of a sweep.
printed     on paper it has pages.

What needs chromium is skipped without it.  The command is $MEMWALL, or build/cli/memwall.
"""
import functools
import html.parser
import json
import os
import re
import shutil
import sys

from browser import CHROMIUM, Browser
from command import FEW, ROOT, SIMULATE, Box, refused
from tap import Skip, report_in

EVIL = "</script><script>window.evil=1</script><img src=x onerror='window.evil=2'>\"'&\x1b"
NAMES = {"answer": ["verdict", "timeline", "memory", "changes", "inputs"],
         "several": ["verdict", "comparison", "timeline", "memory", "inputs"],
         "advice": ["verdict", "comparison", "machines", "timeline", "memory", "changes", "inputs"],
         "run": ["verdict", "timeline", "memory", "measured", "inputs"],
         "rows.csv": ["verdict", "sweep", "inputs"],
         "trace": ["timeline", "inputs"]}
VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
OPS = 1000 if FEW else 100000


class Structure(html.parser.HTMLParser):
    """Whether elements are nested well, ids are there once, and links lead somewhere."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.wrong, self.titles = [], [], [], [], []
        self.feed(text)
        self.close()
        self.wrong += [f"<{tag}> is not closed" for tag in self.open]
        self.wrong += [f"id {it} twice" for it in set(self.ids) if self.ids.count(it) > 1]
        self.wrong += [f"no id {it}" for it in self.links if it not in self.ids]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.wrong.append(f"<{tag}> has an attribute twice")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name == "href":
                self.links.append(value[1:] if value.startswith("#") else f"outside: {value}")
            elif name in ("src", "style") or name.startswith("on"):
                self.wrong.append(f"<{tag} {name}={value}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes another element, line {self.getpos()[0]}")


def made(box, files, name="page.html"):
    answer = box.run(f"report {files} -o {name}")
    assert answer.status == 0 and not answer.err, answer.err
    return (box.folder / name).read_text(encoding="utf-8")


def evil_of(value):
    """The same result with all texts hostile, but for those that say what it is."""
    if isinstance(value, dict):
        return {key: it if key in ("schema", "tier") else evil_of(it) for key, it in value.items()}
    if isinstance(value, list):
        return [evil_of(it) for it in value]
    return EVIL if isinstance(value, str) else value


def write_large(box):
    """A trace as memwall writes it, of many ops in two lanes."""
    lines = ['{"ph": "M", "name": "thread_name", "pid": 0, "tid": %d, "args": {"name": "%s"}}'
             % it for it in ((1, "compute"), (2, "host"))]
    for i in range(OPS):
        phase = "backward" if i % 3 > 1 else "forward"
        lines.append('{"ph": "X", "name": "mlp-up fwd L%d", "pid": 0, "tid": %d, "ts": %d.%03d, '
                     '"dur": 3.500, "args": {"op": %d, "phase": "%s"}}'
                     % (i % 97, 1 + i % 2, 4 * (i // 2), 7 * i % 500, i, phase))
    box.write("large", '{\n  "schema": "memwall-trace/1",\n  "otherData": {"model": "m"},\n'
                       '  "traceEvents": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n")


def write_results(box):
    """Results of each kind, from the command."""
    def asked(name, line):
        answer = box.run(line)
        assert answer.status in (0, 3), answer.err
        box.write(name, answer.out)
    asked("answer", f"{SIMULATE} --what-if --tokens 1B --json --trace trace")
    asked("several", "simulate -m gpt2-xl -H dgx2 -s zero3,ddp,zero-offload --batch 1 --json")
    asked("unfit", "simulate -m gpt3-175b -H rtx4090 -s ddp --batch 1 --json")
    asked("advice", "advise -m gpt2-xl --tokens 1B --machines a100,rtx4090 --max-nodes 2 --json")
    asked("rows", "sweep -m gpt2-xl -H dgx2 -s zero3 --closed-form --over nodes=1,2,4 "
                  "--over batch=1,2,4096 --tokens 1B -o rows.csv")
    asked("rows.json", "sweep -m gpt2-xl -H dgx2 -s zero3 --closed-form --over nodes=1,2,4 "
                       "--over batch=1,2,4096 --tokens 1B --json")
    box.write("text.txt", "All happy families are alike; " * 200)
    asked("run", f"run -m {box.gpt2} -H rtx4090 --set gpu.memory_gib=2 --batch 2 --data text.txt "
                 "--steps 3 -s ddp --compare --json")
    box.write("evil", evil_of(json.loads((box.folder / "several").read_text())))
    trace = (box.folder / "trace").read_text(encoding="utf-8")
    box.write("evil-trace", re.sub(r'"name": "(?!thread_|process_)[^"]*"',
                                   lambda _: f'"name": {json.dumps(EVIL)}', trace))


# --- the file ------------------------------------------------------------------------------------

def check_refused(box):
    whole = (box.folder / "answer").read_text(encoding="utf-8")
    trace = (box.folder / "trace").read_text(encoding="utf-8")
    rows = (box.folder / "rows.csv").read_text(encoding="utf-8")
    bad = {"empty": ("", "is empty"), "cut": (whole[:len(whole) // 2], "cut short?"),
           "other": ('{"schema": "memwall-answer/9", "answers": []}', "memwall-answer/1"),
           "foreign": ('{"schema": "https://json-schema.org"}', "a result of memwall"),
           "nameless": ("{}", "missing"), "text": ("step 12 loss 3.1\n", "a result of memwall"),
           "array": ('{"schema": "memwall-answer/1", "answers": 7}', "must be an array"),
           "numbers": ('{"schema": "memwall-run/1", "answers": [7]}', "must be an array"),
           "no-rows": ('{"schema": "memwall-sweep/1", "rows": [{"over": {}}]}', "rows of a sweep"),
           "cut-trace": (trace[:len(trace) // 2], "line"), "half-trace": (
               trace[:trace.index("},\n", len(trace) // 2) + 2], "cut short?"),
           "flat-trace": (trace.replace("\n", " "), "an event per line"),
           "longer-trace": (trace + "x", "the events' end"),
           "double-trace": (trace + trace, "the events' end"),
           "open-trace": (trace.rstrip()[:-1], "the events' end"),
           "cut-rows": (rows[:-9], "cut short?"), "short-row": (rows + "1,2\n", "cells"),
           "zero": ("{\0}", "zero byte"), "latin": (b'{"schema": "\xff"}', "UTF-8")}
    for name, (content, word) in bad.items():
        box.write(name, content)
        yield from (f"{name}: {it}" for it in refused(
            box.run(f"report answer {name} -o bad.html"), [name, word]))
    box.write("kept.html", "kept")
    for line, words in {"report -o bad.html": ["at least one file"], "report answer": ["-o PAGE"],
                        "report answer -o /nonexistent/p.html": ["/nonexistent/p.html"],
                        "report answer -o answer": ["replace"], "report . -o bad.html": ["folder"],
                        "report none -o kept.html": ["none", "must be a result"],
                        "report /dev/zero -o bad.html": ["/dev/zero"],
                        f"report {'answer ' * 65} -o bad.html": ["64"],
                        "report answer cut -o kept.html": ["cut"]}.items():
        yield from (f"{line[:60]}: {it}" for it in refused(box.run(line), words))
    if (box.folder / "bad.html").exists() or (box.folder / "kept.html").read_text() != "kept":
        yield "a page was written, or one that was there was replaced"


def check_kinds(box):
    for name, sections in NAMES.items():
        found = re.findall(r'<section id="(\w+)">', made(box, name))
        if found != sections:
            yield f"{name}: sections {found}, not {sections}"
    if made(box, "rows.csv").count('<figure class="plot">') != 3:
        yield "a sweep of two axes has not three pictures"
    csv, rows = made(box, "rows.csv"), made(box, "rows.json")
    cut = [page.split('<section id="inputs">')[0].split("</h3>", 1)[1] for page in (csv, rows)]
    if cut[0].replace("rows.csv", "rows.json") != cut[1]:
        yield "rows of CSV and of JSON make other pages"
    for line, word in (("simulate -m gpt2-xl -H rtx4090 --serve 16", "First token"),
                       ("simulate -m gpt2-xl -H rtx4090 --objective dpo", "Global batch"),
                       ("plan -m gpt2-xl -H rtx4090 --largest", "Layers"),
                       ("plan -m gpt2-xl -H flat-test --strategies", "Placements")):
        box.write("other", box.run(line + " --json").out)
        page = made(box, "other")
        yield from Structure(page).wrong
        if word not in page or re.findall(r'<section id="(\w+)">', page) != ["figures", "inputs"]:
            yield f"{line}: its figures are not shown"
    unfit = made(box, "unfit")
    if "Does not fit" not in unfit or "What would make it fit" not in unfit:
        yield "a plan that does not fit is not said to"


def check_inert(box):
    page = made(box, "evil evil-trace")
    if page.count("<script") != 2 or "onerror='" in page or "\x1b" in page:
        yield "markup of a result is markup of the page"
    if "&lt;/script&gt;&lt;script&gt;window.evil=1" not in page:
        yield "the name is not shown as text"
    yield from Structure(page).wrong
    name = "'; system('touch ran'); print `touch ran` @a '"
    rows = (box.folder / "rows.csv").read_text(encoding="utf-8")
    box.write("quoted.csv", rows.replace("over.batch", "over." + name))
    page = made(box, "quoted.csv")
    if page.count('<figure class="plot">') != 3 or (box.folder / "ran").exists():
        yield "gnuplot takes an axis's name for a part of its script"
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    if "default-src 'none'" not in policy or "unsafe" in policy:
        yield f"policy: {policy}"


def check_no_gnuplot(box):
    (box.folder / "nothing").mkdir()
    answer = box.run("report rows.csv -o plain.html", PATH=str(box.folder / "nothing"))
    if answer.status or not re.fullmatch(r"memwall: plain.html: .*gnuplot.*\n", answer.err):
        yield f"status {answer.status}: {answer.err}"
        return
    page = (box.folder / "plain.html").read_text(encoding="utf-8")
    if "gnuplot was not found" not in page or "<figure" in page or "over.batch" in page or \
            "Rows of rows.csv" not in page:
        yield "without gnuplot the page has no rows, or no word of it"
    yield from Structure(page).wrong


def check_ended(box):
    for folder in ("path", "temporary", "pages"):
        (box.folder / folder).mkdir()
    fake = box.folder / "path" / "gnuplot"
    for name, number in (("INT", 2), ("TERM", 15), ("HUP", 1)):
        fake.write_text(f"#!/bin/sh\nkill -{name} $PPID\nexit 1\n", encoding="utf-8")
        fake.chmod(0o755)
        answer = box.run("report rows.csv -o pages/p.html",
                         PATH=f"{box.folder / 'path'}:{os.environ['PATH']}",
                         TMPDIR=str(box.folder / "temporary"))
        left = [*(box.folder / "temporary").iterdir(), *(box.folder / "pages").iterdir()]
        said = answer.err == "memwall: stopped; no page was written\n"
        if answer.status != 128 + number or not said or left:
            yield f"SIG{name}: status {answer.status}, {left} are left: {answer.err}"


def check_same(box):
    files = "answer trace several rows.csv run advice"
    first = made(box, files)
    again = box.folder / "again"
    again.mkdir()
    for name in files.split():
        shutil.copy(box.folder / name, again / name)
    second = made(box, " ".join(f"again/{name}" for name in files.split()), "other.html")
    if first != second:
        yield "the same files make other bytes"
    yield from Structure(first).wrong


def check_figures(box):
    [answer] = json.loads((box.folder / "answer").read_text())["answers"]
    page = made(box, "answer trace")
    text = box.run(f"{SIMULATE} --tokens 1B").out.decode()
    step = re.search(r"^step time +([\d.]+ \w+)", text, re.MULTILINE).group(1)
    for words in (f"<dd>{step}", answer["bottleneck"], "SHA-256", *answer["notes"],
                  *(row["purpose"] for row in answer["ledger"])):
        if words.replace("'", "&#39;") not in page:
            yield f"not on the page: {words}"
    events = json.loads((box.folder / "trace").read_text())["traceEvents"]
    most = max(event["args"]["bytes"] for event in events
               if event["name"] == "gpu memory: in use") / 2**30
    said = float(re.search(r"gpu memory<br><small>at most ([\d.]+) GiB", page).group(1))
    if abs(said / most - 1) > 0.01:
        yield f"at most {said} GiB of GPU memory; the trace has {most}"
    other = json.loads((box.folder / "several").read_text())["answers"][0]
    for key in ("hardware_date", "software_date", "provenance"):
        if f"<dd>{other[key]}</dd>" not in made(box, "several"):
            yield f"{key} {other[key]} is not on the page"
    if f'data-v="{answer["lanes"][0]["busy_s"]}"' not in page:
        yield "the compute lane's time is not on the page"
    if "<title>Training gpt2-xl" not in page or "<title>Mine</title>" not in made(
            box, "answer --title Mine"):
        yield "the title"


# --- in a browser --------------------------------------------------------------------------------

# Texts that differ too little from what is behind them (WCAG 2: 4.5 to 1).
CONTRAST = """(() => {
  const rgba = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 :
    ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = rgba(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return null; };
  const bad = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || e.closest("script, title, desc")) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e), svg = e instanceof SVGElement;
    const fore = rgba(svg ? style.fill : style.color).slice(0, 3), back = behind(e);
    const [a, b] = [light(fore), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const name = `${e.tagName} ${e.className.baseVal ?? e.className}`;
    if (ratio < 4.5) bad.add(`${name}: ${ratio.toFixed(2)}`);
  }
  return [...bad].slice(0, 5);
})()"""
READY = """new Promise((done) => { const look = () =>
  [...document.querySelectorAll(".timeline")].every((f) => f.timeline) ? done(true) :
  setTimeout(look, 20); look(); })"""


def opened(box, name, **how):
    page = box.browser.page(box.folder / name, **how)
    page.value(READY)
    return page


def check_shown(box):
    made(box, "answer trace several unfit rows.csv run advice", "all.html")
    made(box, "evil evil-trace", "evil.html")
    for name in ("all.html", "evil.html"):
        page = opened(box, name)
        for dark in (False, True):
            page.scheme(dark)
            yield from (f"{name}, dark {dark}: {it}" for it in page.value(CONTRAST))
            colors = page.value("getComputedStyle(document.body).backgroundColor")
            if ("251" in colors) == dark:
                yield f"dark {dark}: the page is {colors}"
        for width in (1200, 360):
            page.size(width)
            wide = page.value("document.documentElement.scrollWidth")
            if wide > width:
                yield f"{name} at {width} pixels is {wide} wide"
        if page.value("window.evil"):
            yield f"{name}: a script of a result ran"
        missing = page.value("[...document.querySelectorAll('thead th:not([scope=col]), "
                             "svg[role=img]:not(:has(> title)), button:empty')].length")
        if missing:
            yield f"{name}: {missing} heads, pictures or buttons without a name"
        yield from (f"{name}: {it}" for it in page.problems())
        page.close()


def check_sorted(box):
    made(box, "several", "several.html")
    page = opened(box, "several.html")
    table = "document.querySelector('#comparison table')"
    cells = f"[...{table}.tBodies[0].rows].map((r) => r.cells[column].dataset.v ?? null)"
    column = page.value(f"[...{table}.tHead.rows[0].cells].findIndex("
                        "(h) => h.textContent === 'Step time')")
    before = page.value(cells.replace("column", str(column)))
    for state, reverse in (("ascending", False), ("descending", True)):
        page.value(f"{table}.tHead.rows[0].cells[{column}].querySelector('button').click()")
        after = page.value(cells.replace("column", str(column)))
        numbers = sorted((float(v) for v in before if v), reverse=reverse)
        if [float(v) for v in after if v] != numbers or None in after[:len(numbers)]:
            yield f"{state}: {before} became {after}"
        said = page.value(f"[...{table}.tHead.rows[0].cells].map((h) => h.ariaSort)")
        if [said[column], len([it for it in said if it])] != [state, 1]:
            yield f"aria-sort is {said}"
    page.value(f"{table}.tHead.rows[0].cells[0].querySelector('button').click()")
    names = page.value(f"[...{table}.tBodies[0].rows].map((r) => r.cells[0].textContent)")
    if names != sorted(names):
        yield f"by name: {names}"
    yield from page.problems()
    page.close()


def check_zoomed(box):
    made(box, "trace", "trace.html")
    page = opened(box, "trace.html")
    it = "document.querySelector('.timeline').timeline"
    def view():
        return page.value(f"[{it}.from, {it}.to]")
    whole = view()
    page.value("document.querySelector('.tools button').click()")
    if view() == whole or not view()[1] - view()[0] < 0.6 * whole[1]:
        yield f"Zoom in: {whole} became {view()}"
    spot = page.value("(() => { const c = document.querySelector('.track canvas');"
                      "c.scrollIntoView({block: 'center'}); c.focus();"
                      "const b = c.getBoundingClientRect(); return [b.x, b.y, b.width]; })()")
    if "compute" not in page.value(f"{it}.told.textContent"):
        yield f"focus says {page.value(it + '.told.textContent')}"
    def key(name, text=""):
        page.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=text)
        page.call("Input.dispatchKeyEvent", type="keyUp", key=name)
    key("0", "0")
    if view() != whole:
        yield f"0: {view()}, not {whole}"
    first = page.value(f"{it}.told.textContent")
    key("ArrowRight")
    second = page.value(f"{it}.told.textContent")
    if first == second or not re.search(r": .* \(\w+\), [\d.e-]+ \w+, from", second):
        yield f"ArrowRight: {first!r} became {second!r}"
    key("+", "+")
    if not view()[1] - view()[0] < whole[1]:
        yield f"+: {view()}"
    key("0", "0")
    x, y = spot[0] + spot[2] / 2, spot[1] + 12
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-200)
    zoomed = view()
    if not zoomed[1] - zoomed[0] < whole[1]:
        yield f"the wheel: {zoomed}"
    for kind, at in (("mousePressed", x), ("mouseMoved", x - 60), ("mouseReleased", x - 60)):
        page.call("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=1,
                  clickCount=1)
    if not view()[0] > zoomed[0] or abs(view()[1] - view()[0] - zoomed[1] + zoomed[0]) > 1e-9:
        yield f"dragging: {zoomed} became {view()}"
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x,
              y=spot[1] + page.value(f"{it}.top(0)") + 30)
    if not re.search(r"gpu memory at [\d.]+ \w+: [\d.]+ [KMG]iB in use",
                     page.value(f"{it}.told.textContent")):
        yield f"memory: {page.value(it + '.told.textContent')}"
    shot = page.value("document.querySelector('.track canvas').toDataURL().length")
    if shot < 500:
        yield "nothing is drawn"
    key("0", "0")
    touch = [{"x": x - 20, "y": y, "id": 0}, {"x": x + 20, "y": y, "id": 1}]
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=touch)
    touch[0]["x"] -= 80
    page.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=touch)
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    if not view()[1] - view()[0] < whole[1]:
        yield f"two fingers: {view()}"
    yield from page.problems()
    page.close()


def check_large(box):
    write_large(box)
    size = len(made(box, "large", "large.html"))
    if size > 1.5e6:
        yield f"a page of {OPS} ops has {size} bytes"
    names, *rows = (box.folder / "rows.csv").read_text(encoding="utf-8").splitlines()
    box.write("many.csv", "\n".join([names, *(f"{i}{row[1:]}" for i in range(1000) for row in rows),
                                     ""]))
    many = made(box, "many.csv")
    if len(many) > 2e6 or "The pictures show" not in many or "500 of 9000 rows" not in many:
        yield f"a page of 9000 rows has {len(many)} bytes"
    if CHROMIUM is None:
        yield Skip("no chromium")
        return
    page = opened(box, "large.html")
    drawn = page.value("""(() => { const t = document.querySelector(".timeline").timeline;
      const fill = CanvasRenderingContext2D.prototype.fillRect; let count = 0;
      CanvasRenderingContext2D.prototype.fillRect = function () { count++; };
      const counts = [1, 0.1, 0.001].map((part) => { t.from = 0; t.to = t.whole * part; count = 0;
        t.draw(); return count; });
      CanvasRenderingContext2D.prototype.fillRect = fill;
      return [t.canvas.clientWidth * t.lanes.length, t.lanes[0].start.length, ...counts]; })()""")
    if drawn[1] != OPS / 2 or not 0 < max(drawn[2:]) <= 2 * drawn[0] or drawn[4] > OPS / 500:
        yield f"pixels, ops of a lane, bars drawn of all and of parts: {drawn}"
    yield from page.problems()
    page.close()


def check_printed(box):
    page = opened(box, "all.html", dark=True)
    pdf = page.pdf()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    if not pdf.startswith(b"%PDF") or not 1 < pages < 60:
        yield f"{pages} pages"
    page.call("Emulation.setEmulatedMedia", media="print", features=[
        {"name": "prefers-color-scheme", "value": "dark"}])
    for selector, width in (("table", 660), (".wide table", 1000)):  # what A4 has room for
        page.size(width)
        wide = page.value(f"Math.max(...[...document.querySelectorAll('{selector}')]"
                          ".filter((t) => innerWidth > 700 || !t.closest('.wide'))"
                          ".map((t) => t.getBoundingClientRect().right))")
        if not 0 < wide <= width:
            yield f"on paper a table ends at {wide} of {width}"
    shown = page.value("[getComputedStyle(document.querySelector('nav')).display, "
                       "getComputedStyle(document.body).backgroundColor, "
                       "getComputedStyle(document.querySelector('.track svg')).visibility]")
    if shown != ["none", "rgb(255, 255, 255)", "visible"]:
        yield f"on paper: {shown}"
    page.close()


def with_browser(box, check):
    if CHROMIUM is None:
        yield Skip("no chromium")
    else:
        yield from check(box)


class PageBox(Box):
    """With a browser, which the first page starts."""
    gpt2 = ROOT / "tests/fixtures/gpt2-small/config.json"

    @functools.cached_property
    def browser(self):
        return Browser(self.folder)

    def close(self):
        if "browser" in self.__dict__:
            self.browser.close()


def tests(box):
    if not shutil.which("gnuplot"):
        yield "pages", iter([Skip("no gnuplot")])
        return
    write_results(box)
    for name, check in (("refused", check_refused), ("kinds", check_kinds), ("inert", check_inert),
                        ("no gnuplot", check_no_gnuplot),
                        ("ended", check_ended), ("same", check_same), ("figures", check_figures)):
        yield name, check(box)
    for name, check in (("shown", check_shown), ("sorted", check_sorted), ("zoomed", check_zoomed),
                        ("printed", check_printed)):
        yield name, with_browser(box, check)
    yield "large", check_large(box)
    box.close()


if __name__ == "__main__":
    sys.exit(report_in(PageBox, tests))
