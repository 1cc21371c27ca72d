"use strict";
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let program = {}, state = null, other = null, lines = -1, heard = performance.now();

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
function size(bytes) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (bytes >= unit) return `${+(bytes / unit).toPrecision(3)} ${name}`;
  return `${bytes} B`;
}
const percent = share => `${Math.round(100 * share)}%`;
const whole = n => Math.round(n).toLocaleString("en");
const last = points => points.length ? points[points.length - 1][1] : null;

/* A time in the unit that suits it: [factor from ms, name]. */
const unitOf = ms => ms >= 1000 ? [1e-3, "s"] : ms >= 1 ? [1, "ms"] : [1e3, "µs"];

const span = ms => `${short(ms * unitOf(ms)[0])} ${unitOf(ms)[1]}`;

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
    Object.assign(this, {title, unit, steps, counts, series: [], at: null});
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
    const latest = this.series.filter(one => one.points.length).map(one => `${one.name} ${short(last(one.points))}`);
    const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${this.title}: ${latest.join(", ")}`});
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
    for (const [place, {name, color, points, wide = false, past = false}] of this.series.entries()) {
      if (!points.length) continue;
      const y = v => level(v) - (this.steps ? 2.5 * place : 0); /* equal steps stay apart */
      const path = points.map(([s, v], i) => !i ? `M${x(s)},${y(v)}`
        : this.steps ? `H${x(s)}V${y(v)}` : `L${x(s)},${y(v)}`).join("");
      svg.append(make("path", {d: path + (this.steps && !past ? `H${x(state.now.at_s ?? 0)}` : ""), fill: "none", stroke: color,
        "stroke-width": wide ? 6 : past ? 1.5 : 2, opacity: wide ? 0.3 : 1, "stroke-dasharray": past ? "5 4" : "none", "stroke-linejoin": "round", "stroke-linecap": "round"}));
      const shown = seconds === null ? null : near(points);
      if (shown) svg.append(make("circle", {cx: x(shown[0]), cy: y(shown[1]), r: 3.5, fill: color}));
      else if (points.length === 1) svg.append(make("circle", {cx: x(points[0][0]), cy: y(points[0][1]), r: 3, fill: color}));
      this.keys.append(make("span", {class: "key"}, make("i", {style: past ? `border-top:2px dashed ${color}` : `background:${color};opacity:${wide ? 0.3 : 1};height:${wide ? 6 : 3}px`}),
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
  backlog: new Chart("Backlog", "items", {counts: true}),
  replicas: new Chart("Replicas", "by parallel region", {steps: true}),
};

function tiles() {
  const {now, series} = state, shown = [];
  const tile = (name, value, unit) => shown.push(make("div", {class: "card"}, make("span", {class: "note"}, name),
    make("b", {}, value, " ", make("small", {}, unit))));
  const time = (name, ms) => tile(name, short(ms * unitOf(ms)[0]), unitOf(ms)[1]);
  const rate = last(series.read_per_s), p50 = last(series.p50_ms), p99 = last(series.p99_ms);
  const many = n => n < 1e7 ? whole(n) : short(n);
  tile("read", many(now.read ?? 0), "items");
  tile("delivered", many(now.delivered ?? 0), "items");
  if (state.status !== "running" && now.at_s) tile("mean throughput", short(now.read / now.at_s), "items / s");
  else if (rate !== null) tile("throughput now", short(rate), "items / s");
  if (p50 !== null) time("latency p50", p50);
  if (p99 !== null) time("latency p99", p99);
  if ("backlog" in now) tile("backlog", whole(now.backlog ?? 0), "items");
  const last_epoch = state.epochs.at(-1);
  if ("epochs" in now) tile("epochs", whole(now.epochs), program.checkpoint && last_epoch && state.status === "running"
    ? `saved ${ago(last_epoch)} ago` : program.checkpoint ? "saved" : "");
  const failed = Object.values(now.failed ?? {}).reduce((sum, n) => sum + n, 0);
  if (failed) tile("failed", whole(failed), "items left out");
  const fit = Math.max(2, Math.min(7, Math.floor($("tiles").clientWidth / 160)));
  const columns = Math.ceil(shown.length / Math.ceil(shown.length / fit));
  if (shown.length % columns === 1) shown.at(-1).style.gridColumn = "1 / -1"; /* no card stands alone beside a gap */
  $("tiles").style.setProperty("--columns", columns);
  $("tiles").replaceChildren(...shown);
}

/* How long ago the end of an epoch was, in the time of the run. */
function ago(epoch) {
  const end = epoch.began_s + Object.values(epoch.phases).reduce((sum, s) => sum + s, 0);
  const seconds = Math.max(0, (state.now.at_s ?? 0) - end);
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

const PHASES = {read: ["var(--two)", "find rows"], run: ["var(--one)", "run tasks"], commit: ["var(--global)", "commit"]};
/* The last epochs as bars over time. One that overlaps another is drawn below it. */
function epochs() {
  $("epochs").hidden = !("epochs" in state.now); /* first: what is hidden has no width */
  const shown = state.epochs.slice(-60), box = document.querySelector(".timeline"), width = box.clientWidth;
  const running = state.status === "running", {epoch_done = {}, epoch_rows} = state.now;
  const progress = Object.entries(epoch_done).filter(([, done]) => done).at(-1);
  $("progress").replaceChildren();
  if (running && epoch_rows && progress) {
    const share = Math.min(1, progress[1] / epoch_rows);
    $("progress").append(make("div", {class: "note"}, `this epoch: ${whole(progress[1])} of ${whole(epoch_rows)} rows at ${progress[0]}`),
      make("div", {class: "progress", role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-label": "this epoch"},
        make("i", {style: `width:${100 * share}%`})));
  }
  if (!shown.length) {
    $("epochs-note").textContent = running ? "the first one has not ended yet" : "none has ended";
    box.replaceChildren();
    return;
  }
  if (!width) return;
  const spans = shown.map(one => [one.began_s, one.began_s + Object.values(one.phases).reduce((sum, s) => sum + s, 0)]);
  const from = spans[0][0], until = Math.max(...spans.map(span => span[1]), from + 0.001), lanes = [];
  const lane_of = spans.map(([begin, end]) => {
    let lane = lanes.findIndex(free => free <= begin + 1e-3);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = end;
    return lane;
  });
  const row = 22, height = lanes.length * row + 24, x = s => 2 + (width - 4) * (s - from) / (until - from);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `${shown.length} epochs in ${short(until - from)} seconds`});
  shown.forEach((one, i) => {
    let at = one.began_s;
    const y = lane_of[i] * row + 4, parts = Object.entries(one.phases).map(([name, s]) => `${(PHASES[name] ?? ["", name])[1]} ${span(1000 * s)}`);
    const group = make("g", {}, make("title", {}, `epoch ${one.number}: ${whole(one.items)} items; ${parts.join(", ")}`));
    for (const [name, seconds] of Object.entries(one.phases)) {
      group.append(make("rect", {x: x(at), y, width: Math.max(0.5, x(at + seconds) - x(at) - 0.5), height: row - 7,
        style: `fill:${(PHASES[name] ?? ["var(--line)"])[0]}`}));
      at += seconds;
    }
    svg.append(group);
  });
  const step = TIMES.find(s => (until - from) / s <= width / 85) ?? 86400;
  for (let s = Math.ceil(from / step) * step; s <= until; s += step)
    svg.append(make("text", {x: Math.min(width - 14, Math.max(14, x(s))), y: height - 5, "text-anchor": "middle"}, clock(s)));
  box.replaceChildren(svg);
  const newest = shown.at(-1), took = spans.at(-1)[1] - spans.at(-1)[0];
  $("epochs-note").textContent = `the last ${shown.length}; the newest took ${span(1000 * took)} for ${whole(newest.items)} items`
    + (program.checkpoint ? `; each one is saved in ${program.checkpoint}` : "");
}

const COMPARED = {seconds: ["duration", "s", -1], read_per_s: ["mean throughput", "items / s", 1], read: ["read", "items", 0],
  delivered: ["delivered", "items", 0], p50_ms: ["latency p50, median over time", "ms", -1], p99_ms: ["latency p99, median over time", "ms", -1],
  backlog: ["largest backlog", "items", -1], replicas: ["replicas at the end", "", 0], epochs: ["epochs", "", 0]};
function compare() {
  $("comparison").hidden = other === null;
  if (other === null) return;
  const when = one => new Date(one.started * 1000).toLocaleString();
  $("compared").textContent = `${other.program.name} on ${other.program.on}, ${when(other.program)}; dashed in the charts`;
  const rows = Object.entries(COMPARED).filter(([key]) => key in state.summary || key in other.summary).map(([key, [name, unit, good]]) => {
    const now = state.summary[key], then = other.summary[key];
    const ratio = now !== undefined && then ? now / then : null;
    const kind = ratio === null || !good || Math.abs(ratio - 1) < 0.02 ? "" : (ratio > 1) === (good > 0) ? "better" : "worse";
    const value = n => n === undefined ? "" : n >= 1e3 ? whole(n) : short(n);
    return make("tr", {}, cell(unit ? `${name}, ${unit}` : name, "what"), cell(value(now), "number"), cell(value(then), "number"),
      cell(ratio === null ? "" : `${+ratio.toPrecision(2)}×`, `number ${kind}`));
  });
  $("comparison").querySelector(".wide").replaceChildren(table(["", "#this run", "#other run", "#ratio"], rows, "Nothing to compare yet."));
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
      height: at("height") - 16, rx: 3.5}, make("title", {}, `its own thread begins at ${name}`)));
    if (waiting[name] > 0) operator.append(make("text", {class: "waiting now", x: at("x") + at("width") / 2,
      y: at("y") + at("height") + 12, "font-size": 10.5, "text-anchor": "middle"}, `${whole(waiting[name])} waiting`));
  }
  const states = new Set((program.operator_list ?? []).map(one => one.state)); /* the legend has what the drawing has */
  for (const key of document.querySelectorAll(".legend > span"))
    key.hidden = key.dataset.state ? !states.has(key.dataset.state) : !$("drawing").querySelector(key.dataset.marks);
}

function table(head, rows, empty) {
  if (!rows.length) return make("p", {class: "note"}, empty);
  const used = head.map((_, i) => rows.some(row => row.children[i].textContent)); /* a column without any entry is not shown */
  for (const row of rows) row.replaceChildren(...[...row.children].filter((_, i) => used[i]));
  head = head.filter((_, i) => used[i]);
  return make("table", {}, make("tr", {}, ...head.map(word => make("th", {scope: "col", class: word.startsWith("#") ? "number" : ""}, word.replace("#", "")))), ...rows);
}
const cell = (words, kind = "") => make("td", {class: kind}, words);

const STATES = {stateless: "none", global: "one for all items"};
function operators() {
  const {items_of = {}, failed = {}, in_columns = {}, load = {}, hot_keys = {}, shares = {}} = state.now;
  const of_element = {};
  for (const [name, one] of Object.entries(load)) of_element[one.element] = (of_element[one.element] ?? 0) + (shares[name] ?? 0);
  const rows = (program.operator_list ?? []).map(one => {
    const now = load[one.name] ?? {};
    const held = [now.keys === undefined || one.state !== "keyed" ? null : `${whole(now.keys)} keys`,
      now.state_bytes === undefined || one.state === "stateless" ? null : `${size(now.state_bytes)} on disk`].filter(Boolean).join(", ");
    const kind = one.state === "keyed" ? `per ${one.key.join(", ")}` : STATES[one.state] ?? one.state;
    const kept = held ? `${kind}: ${held}` : kind;
    const share = in_columns[one.name];
    const runs = one.runs === "columns" ? "columns" + (share === undefined ? "" : `, ${Math.round(100 * share)}% of its items`)
      : `Python${one.why ? ": " + one.why : ""}`;
    const items = one.name in items_of ? whole(items_of[one.name]) : "items" in now && now.element === one.name ? whole(now.items) : "";
    const lost = failed[one.name] ? ` (${whole(failed[one.name])} failed)` : "";
    const hot = (hot_keys[one.region] ?? []).join(", ");
    const skew = now.replicas > 1 ? `${short(now.skew)}×${hot ? `, hot key ${hot}` : ""}` : "";
    const where = one.region === null ? "sequential" : now.replicas > 1 ? `${one.region} × ${now.replicas}` : one.region;
    return make("tr", {}, cell(one.name, "what"), cell(where), cell(items + lost, "number"),
      cell("per_s" in now && now.element === one.name && state.status === "running" ? short(now.per_s) : "", "number"),
      cell(now.busy === undefined ? "" : of_element[now.element] ? bar(now.busy * (shares[one.name] ?? 0) / of_element[now.element])
        : now.element === one.name ? bar(now.busy) : `with ${now.element}`, "note"),
      cell(now.waiting && now.element === one.name ? `${whole(now.waiting)} (${percent(now.full)} full)` : "", "number"), cell(skew), cell(kept, "long"), cell(runs, "long"),
      cell(one.place, "place"));
  });
  $("operators").replaceChildren(table(["operator", "region", "#items in", "#items / s", "busy", "#queue", "skew", "state", "runs as", "where"],
    rows, "None."));
}

/* The share of the time at work, as a bar with its number. */
function bar(share) {
  if (share === undefined) return "";
  return make("div", {class: share > 0.8 ? "bar hot" : "bar"}, make("i", {style: `width:${100 * share}%`}), make("span", {}, percent(share)));
}

function failures() {
  $("failures").hidden = !state.failures.length;
  const box = $("failures").querySelector(".wide"), open = box.querySelector("details")?.open;
  const rows = state.failures.map(text => make("pre", {}, text)).reverse();
  const earlier = make("details", {}, make("summary", {class: "note"}, `${rows.length - 3} before these`), ...rows.slice(3));
  earlier.open = open ?? false;
  box.replaceChildren(...rows.slice(0, 3), ...rows.length > 3 ? [earlier] : []);
}

function limit() {
  const found = state.limit, [note, what, why] = $("limit").children;
  $("limit").hidden = !found;
  if (!found) return;
  note.textContent = state.status === "running" ? "What limits it now" : "What limited it";
  what.textContent = `${found.what}:`;
  why.textContent = found.why;
}

function render() {
  const {series, status, now} = state, until = Math.max(now.at_s ?? 0, other?.now.at_s ?? 0, 5);
  const silent = status === "running" && performance.now() - heard > 5000;
  $("status").textContent = silent ? "not responding" : status;
  $("status").className = silent ? "" : status;
  $("elapsed").textContent = clock(now.at_s ?? 0);
  document.title = `${status} · ${program.name}`;
  $("error").style.display = state.error ? "block" : "none";
  $("stop").hidden = !program.can_stop || status !== "running";
  $("spark").hidden = !now.spark_ui || status !== "running";
  if (/^https?:/.test(now.spark_ui ?? "")) $("spark").href = now.spark_ui;
  limit();
  $("error").querySelector("pre").textContent = state.error ?? "";
  tiles();
  const marks = state.changes.map(change => change.at_s);
  const past = (name, key, map = points => points) => other === null ? []
    : [{name, color: "var(--faint)", past: true, points: map(other.series[key])}];
  charts.throughput.show([{name: "read", color: "var(--one)", wide: true, points: series.read_per_s},
    {name: "delivered", color: "var(--two)", points: series.delivered_per_s}, ...past("read, other run", "read_per_s")], until, marks);
  const bound = program.bound_ms ?? null;
  const [factor, unit] = unitOf(Math.max(bound ?? 0, ...series.p99_ms.map(point => point[1])));
  const scaled = points => points.map(([s, ms]) => [s, ms * factor]);
  charts.latency.show([{name: "p50", color: "var(--two)", points: scaled(series.p50_ms)},
    {name: "p99", color: "var(--one)", points: scaled(series.p99_ms)}, ...past("p99, other run", "p99_ms", scaled)], until, marks,
    bound === null ? null : bound * factor, `${unit}, from source to sink`);
  const known = points => points.filter(point => point[1] !== null);
  charts.backlog.show([{name: "waiting", color: "var(--one)", points: known(series.backlog)}, ...past("other run", "backlog", known)],
    until, marks, null, program.on === "local" && bound === null ? "items in queues between threads" : "items");
  const regions = [...new Set(series.degrees.flatMap(point => Object.keys(point[1])))];
  charts.replicas.show(regions.map((name, i) => ({name, color: `var(--r${i % 6})`,
    points: series.degrees.filter(p => name in p[1]).map(p => [p[0], p[1][name]])})), until, marks);
  const cards = Object.values(charts).filter(chart => chart.card.style.display !== "none");
  for (const [i, chart] of cards.entries()) { /* an odd last chart takes the whole row */
    chart.card.style.gridColumn = i === cards.length - 1 && i % 2 === 0 && i ? "1 / -1" : "";
    if (chart.card.style.gridColumn) chart.draw();
  }
  graph();
  epochs();
  compare();
  operators();
  failures();
  $("changes").replaceChildren(table(["time", "what", "why", "measured effect"], state.changes.slice(-200).map(change =>
    make("tr", {}, cell(clock(change.at_s)), cell(change.what, "what"), cell(change.why), cell(change.effect))).reverse(),
    state.status === "running" ? "None so far. The job adapts by itself when that makes it faster." : "None was needed."));
}

function begin() {
  $("name").textContent = program.name;
  const started = new Date(program.started * 1000).toLocaleString();
  const goal = program.bound_ms ? `goal: ${+(100 * program.quantile).toPrecision(4)}% within ${short(program.bound_ms)} ms` : null;
  $("about").textContent = [`on ${program.on}`, `${program.parallel} of ${program.operators} operators run in parallel`,
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
    "None: every operator can run in parallel."));
  $("explanation").textContent = program.explanation;
}

async function follow() {
  try {
    program = await (await fetch("program")).json();
    other = await (await fetch("other")).json();
    begin();
    do {
      state = await (await fetch(`news?after=${lines}`)).json();
      if (state.lines !== lines) { heard = performance.now(); lines = state.lines; }
      render();
    } while (state.status === "running");
  } catch (error) {
    if (state === null) lines = -1; /* what was seen last stays on the page */
    $("status").textContent = "not reachable"; $("status").className = "";
    setTimeout(() => { lines = -1; follow(); }, 2000);
  }
}
addEventListener("resize", () => { if (state !== null) render(); });
$("stop").addEventListener("click", async () => {
  const kept = program.checkpoint ? "A later run continues from its checkpoint." : "A bounded program then writes no files.";
  if (!confirm(`Stop ${program.name}? ${kept}`)) return;
  $("stop").disabled = true;
  $("stop").textContent = "Stopping";
  await fetch("stop", {method: "POST"});
});
follow();
