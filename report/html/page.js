// The page is whole without this script, which adds two things: tables are sorted by a click on a
// column's name, and timelines can be zoomed into.
"use strict";

// --- tables ------------------------------------------------------------------------------------

function valueOf(row, column) {
  const cell = row.cells[column];
  return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
}

// Numbers by size before texts by alphabet; empty cells last, whatever the direction.
function compare(a, b, direction) {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return direction * (typeof a === "number" ? a - b : a.localeCompare(b, "en"));
}

function sort(table, head) {
  const column = head.cellIndex;
  const ascending = head.getAttribute("aria-sort") !== "ascending";
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({row, value: valueOf(row, column)}));

  rows.sort((a, b) => compare(a.value, b.value, ascending ? 1 : -1));
  body.append(...rows.map((it) => it.row));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "sort by this column";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(table, head));
    head.replaceChildren(button);
  }
}

// --- timelines ---------------------------------------------------------------------------------

const ROW = 24; // pixels of a lane, and
const TALL = 48; // of a curve of memory; internal.h and page.css have the same
const LEVELS = 10000; // of a curve; internal.h has the same
const LEAST_PX = 1; // what is narrower is drawn together

function shownTime(seconds) {
  const size = Math.abs(seconds);
  const [factor, unit] = size >= 3600 ? [1 / 3600, "hours"] : size >= 1 || size === 0 ? [1, "s"] :
    size >= 1e-3 ? [1e3, "ms"] : size >= 1e-6 ? [1e6, "us"] : [1e9, "ns"];
  return `${Number((seconds * factor).toPrecision(4))} ${unit}`;
}

function shownBytes(bytes) {
  const power = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), 5);
  return `${Number((bytes / 1024 ** power).toPrecision(3))} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
}

// The ops of a lane with absolute times: a Float64Array of starts and one of ends, in seconds.
function unpack(lane, tick) {
  const count = lane.gap.length;
  const start = new Float64Array(count), end = new Float64Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    start[i] = (at += lane.gap[i]) * tick;
    end[i] = (at += lane.time[i]) * tick;
  }
  return {name: lane.name, start, end, phase: lane.phase, op: lane.op};
}

// A curve's points: what is in use from `end` on is the level of the same index.
function unpackCurve(curve, tick) {
  let at = 0;
  const end = Float64Array.from(curve.gap, (gap) => (at += gap) * tick);
  return {name: curve.name, most: curve.most_bytes, end, level: curve.level};
}

// Index of the first op that ends after a time; of the first point after it.
function firstAfter(lane, time) {
  let low = 0, high = lane.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

class Timeline {
  constructor(figure, data) {
    this.figure = figure;
    this.phases = data.phases;
    this.names = data.names;
    this.lanes = data.lanes.map((lane) => unpack(lane, data.tick_s));
    this.curves = data.curves.map((curve) => unpackCurve(curve, data.tick_s));
    this.whole = Math.max(...this.lanes.map((lane) => lane.end[lane.end.length - 1] || 0));
    this.from = 0;
    this.to = this.whole;
    this.lane = 0; // the op that the keyboard is at
    this.at = -1;
    this.fingers = new Map();
    this.build();
    this.listen();
    this.draw();
  }

  build() {
    const track = this.figure.querySelector(".track");
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Timeline. Arrow keys go from op to op and from lane to " +
      "lane, with Shift they move the view, plus and minus zoom, 0 shows all.");
    track.append(this.canvas);
    track.classList.add("zooms");
    this.axis = this.figure.querySelectorAll(".axis li");
    this.labels = this.figure.querySelectorAll(".names li");
    this.told = document.createElement("output");
    this.told.className = "told";
    this.told.textContent = "Wheel or pinch zooms, dragging moves, arrow keys go from op to op.";
    this.figure.append(this.told);
    this.tools();
  }

  tools() {
    const tools = document.createElement("div");
    tools.className = "tools";
    for (const [text, what] of [["Zoom in", () => this.zoom(0.5)], ["Zoom out", () => this.zoom(2)],
      ["Earlier", () => this.move(-0.5)], ["Later", () => this.move(0.5)], ["All", () => this.all()]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", what);
      tools.append(button);
    }
    this.figure.querySelector(".lanes").before(tools);
  }

  // --- the view

  see(from, to) {
    const least = this.whole * 1e-7;
    const wide = Math.min(Math.max(to - from, least), this.whole);
    this.from = Math.min(Math.max(from, 0), this.whole - wide);
    this.to = this.from + wide;
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.draw(); });
    }
  }

  // Around a share of the view, its middle unless said otherwise.
  zoom(factor, share = 0.5) {
    const still = this.from + share * (this.to - this.from);
    this.see(still - (still - this.from) * factor, still + (this.to - still) * factor);
  }

  move(share) {
    const by = share * (this.to - this.from);
    this.see(this.from + by, this.to + by);
  }

  all() { this.see(0, this.whole); }

  // --- drawing

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const style = getComputedStyle(document.documentElement);
    const pen = this.canvas.getContext("2d");

    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    this.colors = this.phases.map((phase) => style.getPropertyValue(`--${phase}`));
    this.lanes.forEach((lane, row) => this.drawLane(pen, lane, row, width));
    pen.fillStyle = style.getPropertyValue("--c5");
    this.curves.forEach((curve, i) => this.drawCurve(pen, curve, this.top(i), width));
    if (this.at >= 0) this.drawMark(pen, style.getPropertyValue("--text"), width);
    this.axis.forEach((tick, i) => {
      tick.textContent = shownTime(this.from + (this.to - this.from) * i / (this.axis.length - 1));
    });
  }

  // Ops below a pixel are one bar with those beside them, of the first one's colour.
  drawLane(pen, lane, row, width) {
    const scale = width / (this.to - this.from);
    let i = firstAfter(lane, this.from);
    while (i < lane.start.length && lane.start[i] < this.to) {
      const x = Math.max((lane.start[i] - this.from) * scale, 0);
      let end = Math.min((lane.end[i] - this.from) * scale, width);
      pen.fillStyle = this.colors[lane.phase[i]];
      if (end - x < LEAST_PX) {
        const next = firstAfter(lane, this.from + (x + LEAST_PX) / scale);
        end = x + LEAST_PX;
        i = Math.max(next, i + 1);
      } else {
        i++;
      }
      const gap = end - x > 4 ? 0.75 : 0; // so that long ones side by side are seen apart
      pen.fillRect(x, row * ROW + 3, end - x - gap, ROW - 6);
    }
  }

  top(curve) { return this.lanes.length * ROW + curve * TALL; }

  // Of each pixel the most.
  drawCurve(pen, curve, top, width) {
    const second = (this.to - this.from) / width;
    let i = Math.max(firstAfter(curve, this.from) - 1, 0);
    for (let x = 0; x < width; x++) {
      const until = this.from + (x + 1) * second;
      let most = curve.level[i];
      while (i + 1 < curve.end.length && curve.end[i + 1] < until)
        most = Math.max(most, curve.level[++i]);
      const up = (TALL - 6) * most / LEVELS;
      pen.fillRect(x, top + TALL - 1 - up, 1, up);
    }
  }

  tellCurve(index, time) {
    const curve = this.curves[index];
    const level = curve.level[Math.max(firstAfter(curve, time) - 1, 0)];
    this.told.textContent = `${curve.name} at ${shownTime(time)}: ` +
      `${shownBytes(curve.most * level / LEVELS)} in use`;
  }

  drawMark(pen, color, width) {
    const lane = this.lanes[this.lane], scale = width / (this.to - this.from);
    const x = (lane.start[this.at] - this.from) * scale, end = (lane.end[this.at] - this.from) * scale;
    pen.strokeStyle = color;
    pen.lineWidth = 2;
    pen.strokeRect(x, this.lane * ROW + 2, Math.max(end - x, 2), ROW - 4);
  }

  // --- what an op is

  tell(row, index) {
    const lane = this.lanes[row];
    this.labels.forEach((label, i) => label.classList.toggle("at", i === row));
    this.told.textContent = `${lane.name}: ${this.names[lane.op[index]]} ` +
      `(${this.phases[lane.phase[index]]}), ${shownTime(lane.end[index] - lane.start[index])}, ` +
      `from ${shownTime(lane.start[index])} to ${shownTime(lane.end[index])}`;
  }

  // The op under a point, or within two pixels of it.
  find(x, y) {
    const row = Math.floor(y / ROW), lane = this.lanes[row];
    if (!lane) return null;
    const second = (this.to - this.from) / this.canvas.clientWidth;
    const time = this.from + x * second;
    const index = firstAfter(lane, time - 2 * second);
    return index < lane.start.length && lane.start[index] <= time + 2 * second ? {row, index} : null;
  }

  // The keyboard goes to an op, and the view with it.
  go(row, index) {
    const lane = this.lanes[row];
    if (!lane || !lane.start.length) return;
    this.lane = row;
    this.at = Math.min(Math.max(index, 0), lane.start.length - 1);
    const middle = (lane.start[this.at] + lane.end[this.at]) / 2, half = (this.to - this.from) / 2;
    if (middle < this.from || middle > this.to) this.see(middle - half, middle + half);
    else this.see(this.from, this.to);
    this.tell(row, this.at);
  }

  goLane(by) {
    const lane = this.lanes[this.lane];
    const time = this.at >= 0 ? lane.start[this.at] : this.from;
    const row = this.lane + by;
    if (this.lanes[row]) this.go(row, firstAfter(this.lanes[row], time));
  }

  // --- mouse, fingers, keys

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.move((event.deltaX || event.deltaY) / canvas.clientWidth);
      else if (event.ctrlKey || event.altKey || document.activeElement === canvas)
        this.zoom(Math.exp(event.deltaY / 300), event.offsetX / canvas.clientWidth);
      else return; // the page scrolls until the timeline has been clicked on
      event.preventDefault();
    }, {passive: false});
    canvas.addEventListener("dblclick", (event) =>
      this.zoom(0.25, event.offsetX / canvas.clientWidth));
    canvas.addEventListener("pointerdown", (event) => {
      this.fingers.set(event.pointerId, event.offsetX);
      canvas.setPointerCapture(event.pointerId);
    });
    for (const end of ["pointerup", "pointercancel"])
      canvas.addEventListener(end, (event) => this.fingers.delete(event.pointerId));
    canvas.addEventListener("pointermove", (event) => this.pointer(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => { if (this.at < 0) this.go(0, 0); });
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  pointer(event) {
    const width = this.canvas.clientWidth, before = this.fingers.get(event.pointerId);
    const found = this.find(event.offsetX, event.offsetY);
    const curve = Math.floor((event.offsetY - this.top(0)) / TALL);
    if (found) this.tell(found.row, found.index);
    else if (this.curves[curve])
      this.tellCurve(curve, this.from + event.offsetX / width * (this.to - this.from));
    if (before === undefined) return;
    const others = [...this.fingers].filter(([id]) => id !== event.pointerId);
    this.fingers.set(event.pointerId, event.offsetX);
    if (!others.length) {
      this.move((before - event.offsetX) / width);
    } else {
      const still = others[0][1];
      const was = Math.abs(before - still), is = Math.abs(event.offsetX - still);
      if (was > 1 && is > 1) this.zoom(was / is, still / width);
    }
  }

  key(event) {
    const done = {
      "ArrowLeft": () => event.shiftKey ? this.move(-0.2) : this.go(this.lane, this.at - 1),
      "ArrowRight": () => event.shiftKey ? this.move(0.2) : this.go(this.lane, this.at + 1),
      "ArrowUp": () => this.goLane(-1),
      "ArrowDown": () => this.goLane(1),
      "+": () => this.zoom(0.5, this.share()),
      "=": () => this.zoom(0.5, this.share()),
      "-": () => this.zoom(2, this.share()),
      "0": () => this.all(),
      "Home": () => this.go(this.lane, 0),
      "End": () => this.go(this.lane, this.lanes[this.lane].start.length - 1),
    }[event.key];
    if (!done || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    done();
  }

  // Where in the view the op is that the keyboard is at.
  share() {
    const lane = this.lanes[this.lane];
    if (this.at < 0) return 0.5;
    const middle = (lane.start[this.at] + lane.end[this.at]) / 2;
    return Math.min(Math.max((middle - this.from) / (this.to - this.from), 0), 1);
  }
}

async function opsOf(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

if (typeof DecompressionStream !== "undefined")
  for (const figure of document.querySelectorAll(".timeline"))
    opsOf(figure.querySelector(".ops")).then((ops) => { figure.timeline = new Timeline(figure, ops); });
