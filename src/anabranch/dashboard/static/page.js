"use strict";
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let program = {}, state = null, lines = -1, heard = Date.now();

/* Everything that comes from the program is set as text, never as HTML. */
function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "g", "rect", "line", "path", "text", "circle", "title"].includes(tag);
  const element = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function clock(seconds) {
  const s = Math.floor(seconds), two = n => String(n).padStart(2, "0");
  const minutes = Math.floor(s / 60) % 60, hours = Math.floor(s / 3600);
  return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}
function short(n) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(n) >= size) return +(n / size).toPrecision(3) + letter;
  return String(+n.toPrecision(3));
}
const whole = n => Math.round(n).toLocaleString("en");
const last = points => points.length ? points[points.length - 1][1] : null;

/* A time in the unit that suits it: [factor from ms, name]. */
const unitOf = ms => ms >= 1000 ? [1e-3, "s"] : ms >= 1 ? [1, "ms"] : [1e3, "µs"];

function ticks(most, count, least) {
  const rough = most / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 2.5, 5, 10].find(m => m * power >= rough) * power);
  return Array.from({length: Math.ceil(most / step - 1e-9) + 1}, (_, i) => +(i * step).toPrecision(6));
}
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/* A chart: series of [seconds, value] over the time of the run. */
class Chart {
  constructor(title, unit, {steps = false, counts = steps} = {}) {
    this.note = make("span", {class: "note"});
    this.keys = make("span", {class: "keys"});
    this.plot = make("div", {class: "plot"});
    this.card = make("div", {class: "card"},
      make("div", {class: "head"}, make("h2", {}, title), this.note, this.keys), this.plot);
    Object.assign(this, {unit, steps, counts, series: [], at: null});
    $("charts").append(this.card);
    this.plot.addEventListener("mousemove", event => { this.at = event.offsetX; this.draw(); });
    this.plot.addEventListener("mouseleave", () => { this.at = null; this.draw(); });
  }
  show(series, until, marks, bound = null, unit = this.unit) {
    this.note.textContent = unit;
    this.card.style.display = series.some(one => one.points.length) ? "" : "none";
    Object.assign(this, {series, until, marks, bound});
    this.draw();
  }
  draw() {
    const width = this.plot.clientWidth, height = 190;
    if (!width || !this.series.length) return;
    const values = this.series.flatMap(one => one.points.map(point => point[1]));
    const most = Math.max(...values, this.bound ?? 0) * 1.05 || 1;
    const levels = ticks(most, 4, this.counts ? 1 : 0);
    const top = levels[levels.length - 1], left = 46, right = width - 12, bottom = height - 24;
    const x = s => left + (right - left) * s / this.until, level = v => bottom - (bottom - 12) * v / top;
    const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img"});
    for (const v of levels) svg.append(
      make("line", {class: "grid", x1: left, x2: right, y1: level(v), y2: level(v)}),
      make("text", {x: left - 8, y: level(v) + 4, "text-anchor": "end"}, short(v)));
    const step = TIMES.find(s => this.until / s <= width / 85) ?? 86400 * Math.ceil(this.until / 86400 / 6);
    for (let s = 0; s <= this.until; s += step)
      svg.append(make("text", {x: x(s), y: height - 6, "text-anchor": "middle"}, clock(s)));
    for (const s of this.marks)
      svg.append(make("line", {class: "mark", x1: x(s), x2: x(s), y1: 12, y2: bottom}));
    if (this.bound !== null)
      svg.append(make("line", {class: "bound", x1: left, x2: right, y1: level(this.bound), y2: level(this.bound)}));
    const seconds = this.at === null ? null : (this.at - left) / (right - left) * this.until;
    const near = points => points.reduce((best, point) =>
      best === null || Math.abs(point[0] - seconds) < Math.abs(best[0] - seconds) ? point : best, null);
    this.keys.replaceChildren();
    for (const [place, {name, color, points, wide = false}] of this.series.entries()) {
      if (!points.length) continue;
      const y = v => level(v) - (this.steps ? 2.5 * place : 0); /* equal steps stay apart */
      const path = points.map(([s, v], i) => !i ? `M${x(s)},${y(v)}`
        : this.steps ? `H${x(s)}V${y(v)}` : `L${x(s)},${y(v)}`).join("");
      svg.append(make("path", {d: path + (this.steps ? `H${x(this.until)}` : ""), fill: "none", stroke: color,
        "stroke-width": wide ? 6 : 2, opacity: wide ? 0.3 : 1, "stroke-linejoin": "round", "stroke-linecap": "round"}));
      const shown = seconds === null ? null : near(points);
      if (shown) svg.append(make("circle", {cx: x(shown[0]), cy: y(shown[1]), r: 3.5, fill: color}));
      else if (points.length === 1) svg.append(make("circle", {cx: x(points[0][0]), cy: y(points[0][1]), r: 3, fill: color}));
      this.keys.append(make("span", {class: "key"}, make("i", {style: `background:${color};opacity:${wide ? 0.3 : 1};height:${wide ? 6 : 3}px`}),
        shown ? `${name} ${short(shown[1])} at ${clock(shown[0])}` : name));
    }
    if (this.bound !== null) this.keys.append(make("span", {class: "key"},
      make("i", {style: "background:var(--bad)"}), `bound ${short(this.bound)}`));
    if (seconds !== null && this.at >= left && this.at <= right)
      svg.append(make("line", {class: "cross", x1: this.at, x2: this.at, y1: 12, y2: bottom}));
    this.plot.replaceChildren(svg);
  }
}
const charts = {
  throughput: new Chart("Throughput", "items / s"), latency: new Chart("Latency", "ms"),
  backlog: new Chart("Backlog", "items that wait", {counts: true}),
  replicas: new Chart("Replicas", "of each parallel region", {steps: true}),
  epochs: new Chart("Epochs", "seconds that each one took"),
};

function tiles() {
  const {now, series} = state, shown = [];
  const tile = (name, value, unit) => shown.push(make("div", {class: "card"}, make("span", {class: "note"}, name),
    make("b", {}, value, " ", make("small", {}, unit))));
  const time = (name, ms) => tile(name, short(ms * unitOf(ms)[0]), unitOf(ms)[1]);
  const rate = last(series.read_per_s), p50 = last(series.p50_ms), p99 = last(series.p99_ms);
  tile("read", whole(now.read ?? 0), "items");
  tile("delivered", whole(now.delivered ?? 0), "items");
  if (state.status !== "running" && now.at_s) tile("mean throughput", short(now.read / now.at_s), "items / s");
  else if (rate !== null) tile("throughput now", short(rate), "items / s");
  if (p50 !== null) time("latency, half within", p50);
  if (p99 !== null) time("latency, 99% within", p99);
  if ("backlog" in now) tile("waiting", whole(now.backlog ?? 0), "items");
  if ("epochs" in now) tile("epochs", whole(now.epochs), "");
  const [at, done] = Object.entries(now.epoch_done ?? {}).at(-1) ?? [];
  if (at !== undefined && now.epoch_rows) tile("this epoch, " + at, whole(done), "of " + whole(now.epoch_rows));
  if ("epoch_items" in now) tile("last epoch", short(now.epoch_items), `items in ${short(now.epoch_s)} s`);
  const failed = Object.values(now.failed ?? {}).reduce((sum, n) => sum + n, 0);
  if (failed) tile("left out", whole(failed), "items failed");
  const rows = Math.ceil(shown.length / 7); /* no card stands alone in the last row */
  $("tiles").style.setProperty("--columns", Math.ceil(shown.length / rows));
  $("tiles").replaceChildren(...shown);
}

function graph() {
  const {degrees = {}, ports = [], cuts = [], waiting = {}} = state.now;
  const threads = new Set([...ports.map(port => port.replace(/\[\d+\]$/, "")), ...cuts]);
  for (const old of $("drawing").querySelectorAll(".now")) old.remove();
  for (const region of $("drawing").querySelectorAll("[data-region]")) {
    const degree = degrees[region.dataset.region];
    if (degree === undefined) continue;
    const box = region.querySelector("rect"), at = name => +box.getAttribute(name);
    const words = `× ${degree}`, wide = 14 + 7.5 * words.length, x = at("x") + at("width") - wide - 10;
    region.append(make("g", {class: "badge now"}, make("rect", {x, y: at("y") - 10, width: wide, height: 20, rx: 10}),
      make("text", {x: x + wide / 2, y: at("y") + 4.5, "font-size": 12.5, "font-weight": 700, "text-anchor": "middle"}, words)));
  }
  for (const operator of $("drawing").querySelectorAll("[data-operator]")) {
    const name = operator.dataset.operator, box = operator.querySelector("rect"), at = key => +box.getAttribute(key);
    if (threads.has(name)) operator.append(make("rect", {class: "port now", x: at("x") - 6, y: at("y") + 8, width: 7,
      height: at("height") - 16, rx: 3.5}, make("title", {}, `a thread of its own begins at ${name}`)));
    if (waiting[name] > 0) operator.append(make("text", {class: "waiting now", x: at("x") + at("width") / 2,
      y: at("y") + at("height") + 12, "font-size": 10.5, "text-anchor": "middle"}, `${whole(waiting[name])} waiting`));
  }
}

function table(head, rows, empty) {
  if (!rows.length) return make("p", {class: "note"}, empty);
  return make("table", {}, make("tr", {}, ...head.map(word => make("th", {}, word))), ...rows);
}
const cell = (words, kind = "") => make("td", {class: kind}, words);

const STATES = {stateless: "none", global: "one for all items"};
function operators() {
  const {items_of = {}, failed = {}, in_columns = {}} = state.now;
  const rows = (program.operator_list ?? []).map(one => {
    const kept = one.state === "keyed" ? `one for each ${one.key.join(", ")}` : STATES[one.state] ?? one.state;
    const share = in_columns[one.name];
    const runs = one.runs === "columns" ? "columns" + (share === undefined ? "" : `, ${Math.round(100 * share)}% of its items`)
      : `Python${one.why ? ": " + one.why : ""}`;
    const items = one.name in items_of ? whole(items_of[one.name]) : "";
    const lost = failed[one.name] ? ` (${whole(failed[one.name])} left out)` : "";
    return make("tr", {}, cell(one.name, "what"), cell(one.region ?? "sequential"), cell(kept), cell(runs),
      cell(items + lost), cell(one.place, "place"));
  });
  $("operators").replaceChildren(table(["operator", "region", "state", "runs as", "items", "where"], rows, "None."));
}

function render() {
  const {series, status, now} = state, until = Math.max(now.at_s ?? 0, 5);
  const silent = status === "running" && Date.now() - heard > 5000;
  $("status").textContent = silent ? "not responding" : status;
  $("status").className = silent ? "" : status;
  $("elapsed").textContent = clock(now.at_s ?? 0);
  document.title = `${status} · ${program.name}`;
  $("error").style.display = state.error ? "block" : "none";
  $("error").querySelector("pre").textContent = state.error ?? "";
  tiles();
  const marks = state.changes.map(change => change.at_s);
  charts.throughput.show([{name: "read", color: "var(--one)", wide: true, points: series.read_per_s},
    {name: "delivered", color: "var(--two)", points: series.delivered_per_s}], until, marks);
  const bound = program.bound_ms ?? null;
  const [factor, unit] = unitOf(Math.max(bound ?? 0, ...series.p99_ms.map(point => point[1])));
  const scaled = points => points.map(([s, ms]) => [s, ms * factor]);
  charts.latency.show([{name: "p50", color: "var(--two)", points: scaled(series.p50_ms)},
    {name: "p99", color: "var(--one)", points: scaled(series.p99_ms)}], until, marks,
    bound === null ? null : bound * factor, `${unit}, from source to sink`);
  charts.backlog.show([{name: "waiting", color: "var(--one)", points: series.backlog.filter(p => p[1] !== null)}],
    until, marks, null, program.on === "local" && bound === null ? "items that wait between threads" : "items that wait");
  const regions = [...new Set(series.degrees.flatMap(point => Object.keys(point[1])))];
  charts.replicas.show(regions.map((name, i) => ({name, color: `var(--r${i % 6})`,
    points: series.degrees.filter(p => name in p[1]).map(p => [p[0], p[1][name]])})), until, marks);
  charts.epochs.show([{name: "an epoch", color: "var(--one)", points: series.epoch_s ?? []}], until, marks);
  graph();
  operators();
  $("changes").replaceChildren(table(["time", "what", "why", "measured effect"], state.changes.slice(-200).map(change =>
    make("tr", {}, cell(clock(change.at_s)), cell(change.what, "what"), cell(change.why), cell(change.effect))).reverse(),
    state.status === "running" ? "None so far." : "None."));
}

function begin() {
  $("name").textContent = program.name;
  const started = new Date(program.started * 1000).toLocaleString();
  const goal = program.bound_ms ? `goal: ${+(100 * program.quantile).toPrecision(4)}% within ${short(program.bound_ms)} ms` : null;
  $("about").textContent = [`on ${program.on}`, `${program.parallel} of ${program.operators} operators parallel`,
    goal, `since ${started}`].filter(Boolean).join(" · ");
  const drawing = new DOMParser().parseFromString(program.drawing, "image/svg+xml").documentElement;
  /* A record may come from anywhere: a drawing has neither scripts nor handlers. */
  for (const strange of drawing.querySelectorAll("script, foreignObject, a, use, image, style")) strange.remove();
  for (const element of [drawing, ...drawing.querySelectorAll("*")])
    for (const name of element.getAttributeNames()) if (/^on|href/i.test(name)) element.removeAttribute(name);
  const [width, height] = ["width", "height"].map(name => +drawing.getAttribute(name));
  drawing.setAttribute("viewBox", `0 16 ${width} ${height - 66}`); /* without its legend */
  drawing.setAttribute("height", height - 66);
  $("drawing").replaceChildren(document.adoptNode(drawing));
  $("sequential").replaceChildren(table(["operator", "why", "where"], program.sequential.map(one => make("tr", {},
    cell(one.operator, "what"), cell(one.why), cell(one.reason ? `${one.reason.file}:${one.reason.line}` : "", "place"))),
    "Nothing: every operator may run in parallel."));
  $("explanation").textContent = program.explanation;
}

async function follow() {
  try {
    program = await (await fetch("program")).json();
    begin();
    do {
      state = await (await fetch(`news?after=${lines}`)).json();
      if (state.lines !== lines) { heard = Date.now(); lines = state.lines; }
      render();
    } while (state.status === "running");
  } catch (error) {
    if (state === null) lines = -1; /* what was seen last stays on the page */
    $("status").textContent = "not reachable"; $("status").className = "";
    setTimeout(() => { lines = -1; follow(); }, 2000);
  }
}
addEventListener("resize", () => Object.values(charts).forEach(chart => chart.draw()));
follow();
