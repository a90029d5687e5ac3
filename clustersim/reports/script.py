"""What runs in the browser: it draws the figures, and the Gantt chart anew for each part that is zoomed into."""

SCRIPT = r"""
"use strict";
const quiet = {responsive: true, displayModeBar: false};
const config = {responsive: true, displaylogo: false,
  modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]]};
const ARRAYS = {i1: Int8Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array, f8: Float64Array, f4: Float32Array};

function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.bdata), c => c.charCodeAt(0));
  return new ARRAYS[packed.dtype](bytes.buffer);
}

function digits(value) { return String(Number(value.toPrecision(4))); }

function timeText(ps) {
  for (const [unit, size] of [["s", 1e12], ["ms", 1e9], ["us", 1e6], ["ns", 1e3]])
    if (Math.abs(ps) >= size) return digits(ps / size) + " " + unit;
  return ps === 0 ? "0 s" : digits(ps) + " ps";
}

function bytesText(size) {
  for (const [unit, one] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (size >= one) return digits(size / one) + " " + unit;
  return size + " B";
}

function tooltip(g, o, i) {
  const where = g.kinds[o.kind[i]].label + ", " + g.rows[o.row[i]] + ", stream " + g.streams[o.stream[i]];
  const lines = ["<b>" + g.names[o.name[i]] + "</b>", where];
  const place = [["stage", o.stage[i]], ["layer", o.layer[i]], ["micro-batch", o.micro_batch[i]]].filter(p => p[1] >= 0);
  if (place.length) lines.push(place.map(p => p.join(" ")).join(", "));
  const start = Number((o.start_ps[i] / g.unit_ps).toPrecision(9));
  lines.push("start " + start + " " + g.unit + ", duration " + timeText(o.end_ps[i] - o.start_ps[i]));
  if (o.bytes[i] > 0) lines.push("bytes " + bytesText(o.bytes[i]));
  if (o.slack_ps[i] >= 0) lines.push("slack " + timeText(o.slack_ps[i]));
  if (o.critical[i]) lines.push("on the critical path");
  return lines.join("<br>");
}

/* The ops to draw one by one in a part of the time: all, or, where they are too many, the longest that are wide enough to see. */
function chosen(g, o, begin, end) {
  let found = [];
  for (let i = 0; i < o.row.length; i++) if (o.start_ps[i] < end && o.end_ps[i] > begin) found.push(i);
  const inView = found.length;
  if (inView > g.max_bars) {
    found = found.filter(i => (o.end_ps[i] - o.start_ps[i]) * g.narrow >= end - begin);
    if (found.length > g.max_bars) {
      const lengths = Float64Array.from(found, i => o.end_ps[i] - o.start_ps[i]).sort();
      const least = lengths[lengths.length - g.max_bars];
      found = found.filter(i => o.end_ps[i] - o.start_ps[i] > least);
    }
  }
  return {found: found, inView: inView, all: found.length === inView && g.known === g.total};
}

function noteText(g, now) {
  const count = now.inView.toLocaleString("en"), drawn = now.found.length;
  if (now.all) return "All " + count + " ops in view are drawn one by one.";
  const merged = " merged into columns of " + timeText(g.column_ps)
    + ", in the colour of what fills most of each, paler where it is less busy.";
  if (drawn === now.inView) return count + " ops in view are drawn one by one; the shortest of all are only" + merged;
  const some = "The " + drawn.toLocaleString("en") + " longest of the " + count + " ops in view are drawn one by one, the others are";
  return (drawn ? some : "The " + count + " ops in view are too many to draw one by one and are") + merged + " Zoom in to see them.";
}

function bars(g, o, indices) {
  const traces = g.kinds.map(kind => ({
    type: "bar", orientation: "h", name: kind.label, base: [], x: [], y: [], hovertext: [], hoverinfo: "text", width: 0.8,
    marker: {color: [], line: {width: 0}}, legendgroup: kind.label, showlegend: false}));
  for (const i of indices) {
    const t = traces[o.kind[i]];
    t.base.push(o.start_ps[i] / g.unit_ps);
    t.x.push((o.end_ps[i] - o.start_ps[i]) / g.unit_ps);
    t.y.push(g.rows[o.row[i]]);
    t.marker.color.push(g.kinds[o.kind[i]].colours[o.shade[i]]);
    t.hovertext.push(tooltip(g, o, i));
  }
  return traces;
}

function legend(g) {
  return g.kinds.map(kind => ({type: "scatter", mode: "markers", x: [null], y: [g.rows[0]], name: kind.label, hoverinfo: "skip",
    marker: {symbol: "square", size: 12, color: kind.colours[0]}}));
}

function heat(g) {
  const kind = unpack(g.merged), busy = unpack(g.busy), z = [], text = [];
  for (let row = 0; row < g.rows.length; row++) {
    const values = [], words = [];
    for (let i = row * g.bins; i < (row + 1) * g.bins; i++) {
      const name = kind[i] ? g.kinds[kind[i] - 1].label : "", step = Math.max(0, Math.ceil(busy[i] * g.levels / 100) - 1);
      values.push(kind[i] ? (kind[i] - 1) * g.levels + step : null);
      words.push("merged, mostly " + name + "<br>" + busy[i] + " % of this column is busy<br>zoom in for single ops");
    }
    z.push(values); text.push(words);
  }
  const x = Array.from({length: g.bins + 1}, (_, i) => (g.begin_ps + (g.end_ps - g.begin_ps) * i / g.bins) / g.unit_ps);
  return {type: "heatmap", x: x, y: g.rows, z: z, text: text, zmin: -0.5, zmax: g.kinds.length * g.levels - 0.5, colorscale: g.scale,
    showscale: false, ygap: g.gap, hovertemplate: "%{y}<br>%{text}<extra></extra>"};
}

/* The path in a part of the time. Where it turns too often to be seen it stays on the first row of each rank. */
function pathLines(g, time, row, begin, end) {
  let at = [];
  for (let i = 0; i < time.length; i++) {
    const near = (i ? time[i - 1] : time[i]) <= end && (i + 1 < time.length ? time[i + 1] : time[i]) >= begin;
    if (near) at.push(i);
  }
  const calm = at.length > g.max_corners, place = i => row[i] < 0 ? -1 : calm ? g.first_row[row[i]] : row[i];
  const turns = (i, n) => n === 0 || n === at.length - 1 || place(at[n - 1]) !== place(i) || place(at[n + 1]) !== place(i);
  if (calm) at = at.filter(turns);
  const step = Math.ceil(at.length / (5 * g.max_corners));
  at = at.filter((i, n) => n % step === 0);
  const x = at.map(i => time[i] / g.unit_ps), y = at.map(i => place(i) < 0 ? null : g.rows[place(i)]);
  const line = (colour, width, shown) => ({type: "scatter", mode: "lines", x: x, y: y, name: "critical path", hoverinfo: "skip",
    connectgaps: false, legendgroup: "path", showlegend: shown, line: {color: colour, width: width, simplify: false}});
  return [line("#FFFFFF", 5, false), line("#000000", 2.5, true)];
}

function gantt(g) {
  const div = document.getElementById("gantt"), note = document.getElementById("gantt-note"), o = {};
  for (const name of Object.keys(g.ops)) o[name] = unpack(g.ops[name]);
  const merged = heat(g), keys = legend(g), pathTime = unpack(g.path_ps), pathRow = unpack(g.path_row);
  function traces(range) {
    const begin = range[0] * g.unit_ps, end = range[1] * g.unit_ps, now = chosen(g, o, begin, end);
    merged.visible = !now.all;
    note.textContent = noteText(g, now);
    return [merged, ...bars(g, o, now.found), ...pathLines(g, pathTime, pathRow, begin, end), ...keys];
  }
  const whole = g.layout.xaxis.range.slice();
  Plotly.newPlot(div, traces(whole), g.layout, config);
  return {div: div, redraw: range => Plotly.react(div, traces(range), div.layout, config)};
}

/* What is zoomed in one chart over time is zoomed in all. */
function follow(charts, whole, redraw) {
  let busy = false;
  for (const chart of charts) chart.on("plotly_relayout", change => {
    const reset = change["xaxis.autorange"], low = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
    if (busy || !(reset || low !== undefined)) return;
    const range = reset ? whole : chart.layout.xaxis.range.map(Number);
    busy = true;
    Promise.all(charts.map(other => Plotly.relayout(other, {"xaxis.range": range.slice(), "xaxis.autorange": false})))
      .then(() => redraw(range)).finally(() => { busy = false; });
  });
}

const DATA = JSON.parse(document.getElementById("data").textContent);
const drawn = {};
for (const [name, figure] of Object.entries(DATA.figures)) {
  drawn[name] = document.getElementById(name);
  Plotly.newPlot(drawn[name], figure.data, figure.layout, quiet);
}
const main = gantt(DATA.gantt);
const overTime = ["activity", "memory", "links"].filter(name => name in drawn).map(name => drawn[name]);
follow([main.div, ...overTime], DATA.gantt.begin_end, main.redraw);
"""
