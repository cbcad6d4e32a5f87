
"use strict";
// A line chart. Drag or use the buttons to zoom; hover, or use the arrow keys,
// to read values.
views.chart = function (root, data) {
  const MARGIN = {top: 10, right: 12, bottom: 40, left: 58};
  const HEIGHT = 300;
  // Evaluations have one colour in all charts, alone or beside the training.
  const first = data.series[0]?.name === "evaluation" ? 1 : 0;
  const lines = data.series.map((series, i) => ({
    ...series, colour: `var(--series-${(first + i) % 6})`, isShown: true,
  }));
  const all = lines.flatMap(line => line.points.map(point => point[0]));
  const whole = all.length ? extent(all) : [0, 1];
  let range = [...whole];  // of x, as zoomed
  let cursor = null;  // the x whose values are shown
  let dragStart = null;
  let width = 0;

  const svg = make("svg", {
    height: HEIGHT, tabindex: 0, role: "img",
    "aria-label": `${data.title}: a line chart. Left and right arrows read ` +
      "values, plus and minus zoom, 0 shows everything.",
    onkeydown: onKey, onpointerdown: startDrag, onpointermove: onMove,
    onpointerup: endDrag, onpointerleave: () => { cursor = null; draw(); },
    ondblclick: () => zoomTo(whole),
  });
  const values = make("div", {class: "values", "aria-live": "polite"});
  const controls = make("div", {class: "controls"});
  for (const line of lines) {
    const key = make("span", {class: "key"});
    key.style.background = line.colour;
    const button = make("button", {
      "aria-pressed": "true",
      onclick: () => {
        line.isShown = !line.isShown;
        button.setAttribute("aria-pressed", String(line.isShown));
        draw();
      },
    }, key, line.name);
    controls.append(button);
  }
  controls.append(
    make("button", {onclick: () => zoom(0.5)}, "Zoom in"),
    make("button", {onclick: () => zoom(2)}, "Zoom out"),
    make("button", {onclick: () => zoomTo(whole)}, "All"));
  root.classList.add("chart");
  root.append(make("h3", {dir: "auto"}, data.title), controls, svg, values);
  new ResizeObserver(fit).observe(svg);
  fit();

  function fit() {
    if (svg.clientWidth !== width) { width = svg.clientWidth; draw(); }
  }

  // A place on the screen for a value, and back.
  function toX(x) {
    const share = (x - range[0]) / (range[1] - range[0] || 1);
    return MARGIN.left + share * (width - MARGIN.left - MARGIN.right);
  }
  function fromX(pixel) {
    const inner = width - MARGIN.left - MARGIN.right;
    const share = Math.min(1, Math.max(0, (pixel - MARGIN.left) / inner));
    return range[0] + share * (range[1] - range[0]);
  }

  function inRange(line) {
    return line.points.filter(([x]) => x >= range[0] && x <= range[1]);
  }

  function draw() {
    if (!width) return;
    const shown = lines.filter(line => line.isShown);
    const ys = shown.flatMap(line => inRange(line).map(point => point[1]));
    let [low, high] = ys.length ? extent(ys) : [0, 1];
    if (low === high) { low -= 0.5; high += 0.5; }
    const toY = y => MARGIN.top + (high - y) / (high - low) *
      (HEIGHT - MARGIN.top - MARGIN.bottom);
    const parts = [];
    const text = (x, y, anchor, words) => parts.push(
      make("text", {x, y, "text-anchor": anchor}, words));
    for (const tick of ticks(low, high, 5)) {
      parts.push(make("line", {
        class: "grid", x1: MARGIN.left, x2: width - MARGIN.right,
        y1: toY(tick), y2: toY(tick),
      }));
      text(MARGIN.left - 6, toY(tick) + 4, "end", formatNumber(tick));
    }
    for (const tick of ticks(range[0], range[1], width < 500 ? 3 : 8)) {
      text(toX(tick), HEIGHT - MARGIN.bottom + 16, "middle",
        formatNumber(tick));
    }
    text(width - MARGIN.right, HEIGHT - 6, "end", data.x_label);
    text(MARGIN.left, HEIGHT - 6, "start", data.y_label);
    for (const line of shown) {
      const points = inRange(line).map(([x, y]) => `${toX(x)},${toY(y)}`);
      const path = make("polyline", {class: "series", points: points.join(" ")});
      path.style.stroke = line.colour;
      parts.push(path);
      if (points.length === 1) {
        const [x, y] = points[0].split(",");
        const dot = make("circle", {cx: x, cy: y, r: 3});
        dot.style.fill = line.colour;
        parts.push(dot);
      }
    }
    if (cursor !== null) {
      parts.push(make("line", {
        class: "cursor", x1: toX(cursor), x2: toX(cursor),
        y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom,
      }));
      if (dragStart !== null) {
        const [a, b] = extent([toX(dragStart), toX(cursor)]);
        parts.push(make("rect", {
          class: "chosen", x: a, width: b - a,
          y: MARGIN.top, height: HEIGHT - MARGIN.top - MARGIN.bottom,
        }));
      }
    }
    svg.replaceChildren(...parts);
    values.textContent = describe(shown);
  }

  function describe(shown) {
    if (cursor === null) return "";
    const read = shown.map(line => {
      const points = inRange(line);
      if (!points.length) return `${line.name}: –`;
      const [x, y] = nearest(points, cursor);
      return `${line.name}: ${formatNumber(y)}` +
        (x === cursor ? "" : ` (at ${formatNumber(x)})`);
    });
    return `${data.x_label} ${formatNumber(cursor)}   ${read.join("   ")}`;
  }

  function nearest(points, x) {
    return points.reduce((best, point) =>
      Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best);
  }

  // The points that arrow keys stop at.
  function stops() {
    const xs = lines.filter(line => line.isShown)
      .flatMap(line => inRange(line).map(point => point[0]));
    return [...new Set(xs)].sort((a, b) => a - b);
  }

  function onMove(event) {
    const x = fromX(event.clientX - svg.getBoundingClientRect().left);
    const xs = stops();
    cursor = dragStart === null && xs.length
      ? nearest(xs.map(stop => [stop]), x)[0] : x;
    draw();
  }
  function startDrag(event) {
    if (event.pointerType === "touch") return onMove(event);
    dragStart = fromX(event.clientX - svg.getBoundingClientRect().left);
  }
  function endDrag(event) {
    const start = dragStart;
    dragStart = null;
    if (start === null) return;
    const end = fromX(event.clientX - svg.getBoundingClientRect().left);
    if (Math.abs(toX(end) - toX(start)) > 5) zoomTo(extent([start, end]));
    else onMove(event);
  }
  function onKey(event) {
    const xs = stops();
    const at = xs.indexOf(cursor);
    const actions = {
      ArrowLeft: () => { cursor = xs[Math.max(at < 0 ? xs.length - 1 : at - 1, 0)]; },
      ArrowRight: () => { cursor = xs[Math.min(at + 1, xs.length - 1)]; },
      Home: () => { cursor = xs[0]; },
      End: () => { cursor = xs[xs.length - 1]; },
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
      "0": () => zoomTo(whole), Escape: () => { cursor = null; },
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    if (xs.length || !event.key.startsWith("Arrow")) actions[event.key]();
    if (cursor === undefined) cursor = null;
    draw();
  }

  function zoom(factor) {
    const middle = cursor ?? (range[0] + range[1]) / 2;
    const half = (range[1] - range[0]) * factor / 2;
    zoomTo([Math.max(whole[0], middle - half),
      Math.min(whole[1], middle + half)]);
  }
  function zoomTo(next) {
    if (next[1] > next[0]) range = [...next];
    draw();
  }

  function extent(numbers) {
    return numbers.reduce(([low, high], n) =>
      [Math.min(low, n), Math.max(high, n)], [Infinity, -Infinity]);
  }
  // Round numbers between two, some `count` of them.
  function ticks(low, high, count) {
    if (!(high > low)) return [low];
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(k => k * power >= rough) * power;
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high; i++) {
      found.push(Number((i * step).toPrecision(12)));
    }
    return found;
  }
};
