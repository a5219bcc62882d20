// The charts of the page, drawn as SVG.
(() => {
  const SIZE = 12; // of text, as in report.css
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${SIZE}px system-ui, sans-serif`;
  const widthOf = (text) => pen.measureText(text).width;

  const units = [[1e9, " G"], [1e6, " M"], [1e3, " k"]];
  // Return a round number of an axis.
  function brief(value, format) {
    if (format === "share") return `${+(100 * value).toFixed(2)} %`;
    const [unit, name] = units.find(([size]) => value >= size) || [1, ""];
    return +(value / unit).toFixed(3) + name;
  }

  // Return text that is not wider than a number of pixels.
  function shortened(text, width) {
    if (widthOf(text) <= width) return text;
    const characters = [...text];
    while (characters.length && widthOf(`${characters.join("")}…`) > width) characters.pop();
    return `${characters.join("")}…`;
  }

  // ---- axes ----

  // Return functions between values and pixels, and the round values to mark; a linear scale ends at one of these if `round`.
  function scale(values, from, to, format, most, round) {
    const log = format === "log";
    const convert = log ? Math.log : (value) => value;
    let low = round && !log && format !== "ratio" ? 0 : Math.min(...values);
    let high = Math.max(...values) || 1;
    if (round && !log) {
      const step = stepOf(low, high, most);
      [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
    }
    const [a, b] = [convert(low), convert(high)];
    const place = (value) => from + ((convert(value) - a) / (b - a || 1)) * (to - from);
    const at = (place) => a + ((place - from) / (to - from)) * (b - a); // inverse of place, before the exponential
    return { place, at: (place) => (log ? Math.exp(at(place)) : at(place)), ticks: (log ? decades : steps)(low, high, most) };
  }

  function stepOf(low, high, most) {
    if (high <= low) return 1;
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    return power * ([1, 2, 5].find((factor) => (high - low) / (factor * power) <= most) || 10);
  }

  function steps(low, high, most) {
    const step = stepOf(low, high, most);
    const found = [];
    for (let at = Math.ceil(low / step); at * step <= high * 1.0001; at++) found.push(at * step);
    return found;
  }

  function decades(low, high, most) {
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) found.push(...factors.map((factor) => factor * power));
      const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
      if (inside.length < 3 && factors.length === 3) return steps(low, high, most);
      if (inside.length <= most) return inside;
      if (factors.length === 1) return inside.filter((_, at) => at % Math.ceil(inside.length / most) === 0);
    }
  }

  // ---- lines ----

  function drawLines(svg, chart, width, tip) {
    const height = 250;
    const several = chart.series.length > 1;
    const short = names.map((name) => shortened(name, width * 0.24));
    const [xTitle, xFormat] = chart.x;
    const [yTitle, yFormat] = chart.y;
    const top = 26;
    const bottom = height - 40;
    const all = (index) => chart.series.flatMap((series) => series[index]);
    const y = scale(all(1), bottom, top, yFormat, 6, true);
    const left = Math.ceil(Math.max(...y.ticks.map((tick) => widthOf(brief(tick, yFormat))))) + 8;
    const right = width - (several ? Math.ceil(Math.max(...short.map(widthOf))) + 14 : 12);
    const x = scale(all(0), left, right, xFormat, Math.floor((right - left) / 56));
    svg.setAttribute("height", height);
    add(svg, "text", { x: 0, y: 12, class: "title" }, yTitle);
    add(svg, "text", { x: right, y: height - 4, class: "title end" }, xTitle);
    for (const tick of y.ticks) {
      add(svg, "line", { x1: left, x2: right, y1: y.place(tick), y2: y.place(tick), class: "rule" });
      add(svg, "text", { x: left - 6, y: y.place(tick) + 4, class: "end" }, brief(tick, yFormat));
    }
    for (const tick of x.ticks) add(svg, "text", { x: x.place(tick), y: bottom + 17, class: "middle" }, brief(tick, xFormat));
    chart.series.forEach(([at, values], index) => {
      const points = at.map((value, k) => `${x.place(value).toFixed(1)},${y.place(values[k]).toFixed(1)}`).join(" ");
      add(svg, "polyline", { points, class: `line c${index % 6} l${index % 3}` });
      if (xFormat === "count" && at.length < 12) {
        at.forEach((value, k) => add(svg, "circle", { cx: x.place(value), cy: y.place(values[k]), r: 2.5, class: `dot c${index % 6}` }));
      }
    });
    // Names stand beside the ends of the lines, or right of their peaks if they end on the ground, a line of text apart.
    if (several) {
      const peaks = chart.series.map(([at, values]) => {
        const k = values.indexOf(Math.max(...values));
        return [x.place(at[k]), y.place(values[k])];
      });
      const ends = chart.series.map(([, values]) => y.place(values[values.length - 1]));
      const onGround = yFormat !== "log" && ends.every((end) => end > bottom - 15);
      const labels = chart.series.map((_, index) => (onGround ? { index, at: peaks[index][1], x: peaks[index][0] + 24 } : { index, at: ends[index], x: right + 8 }));
      labels.sort((a, b) => a.at - b.at);
      labels.forEach((label, k) => { if (k) label.at = Math.max(label.at, labels[k - 1].at + 16); });
      let limit = bottom;
      for (const label of labels.reverse()) {
        label.at = Math.min(label.at, limit);
        limit = label.at - 16;
        const name = add(svg, "text", { x: label.x, y: label.at + 4, class: `name c${label.index % 6}` }, short[label.index]);
        if (short[label.index] !== names[label.index]) add(name, "title", {}, names[label.index]);
        const end = x.place(chart.series[label.index][0].at(-1));
        if (!onGround && end < right - 12 && Math.abs(ends[label.index] - label.at) < 6) add(svg, "line", { x1: end + 4, x2: right + 4, y1: ends[label.index], y2: label.at, class: `leader c${label.index % 6}` });
        if (onGround) add(svg, "line", { x1: label.x - 18, x2: label.x - 4, y1: label.at, y2: label.at, class: `line c${label.index % 6} l${label.index % 3}` });
      }
    }
    const cursor = add(svg, "line", { y1: top, y2: bottom, class: "cursor", visibility: "hidden" });
    const marks = chart.series.map((_, index) => add(svg, "circle", { r: 4, class: `dot c${index % 6}`, visibility: "hidden" }));
    const hide = () => {
      tip.hidden = true;
      for (const mark of [cursor, ...marks]) mark.setAttribute("visibility", "hidden");
    };
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", (event) => {
      const place = Math.max(left, Math.min(right, event.clientX - svg.getBoundingClientRect().left));
      const value = x.at(place);
      const near = (at) => at.reduce((best, other, k) => (Math.abs(other - value) < Math.abs(at[best] - value) ? k : best), 0);
      const found = chart.series.map(([at, values]) => { const k = near(at); return [at[k], values[k]]; });
      const nearest = found.reduce((best, one) => (Math.abs(one[0] - value) < Math.abs(best[0] - value) ? one : best))[0];
      const lines = [];
      found.forEach(([at, of], index) => {
        const beside = Math.abs(x.place(at) - x.place(nearest)) < 12;
        marks[index].setAttribute("visibility", beside ? "visible" : "hidden");
        marks[index].setAttribute("cx", x.place(at));
        marks[index].setAttribute("cy", y.place(of));
        if (beside) lines.push([index, formats[yFormat](of)]);
      });
      cursor.setAttribute("visibility", "visible");
      cursor.setAttribute("x1", x.place(nearest));
      cursor.setAttribute("x2", x.place(nearest));
      showTip(tip, `${xTitle}: ${formats[xFormat](nearest)}`, lines, x.place(nearest), width, event.clientY - svg.getBoundingClientRect().top);
    });
  }

  function showTip(tip, title, lines, x, width, y) {
    tip.replaceChildren();
    add(tip, "div", {}, title);
    for (const [index, value] of lines) {
      const line = add(tip, "div");
      if (names.length > 1) add(line, "span", { class: `name c${index % 6}` }, names[index]);
      add(line, "b", {}, value);
    }
    tip.hidden = false;
    const room = tip.offsetWidth + 12;
    tip.style.left = `${x + room < width ? x + 12 : Math.max(0, x - room)}px`;
    tip.style.top = `${y + 12}px`;
  }

  // ---- bars ----

  function drawBars(svg, chart, width, tip) {
    const show = formats[chart.format];
    const n = chart.series.length;
    const thick = n > 1 ? 13 : 15;
    const step = n * (thick + 1) + (n > 1 ? 9 : 5);
    const labels = chart.rows.map((name) => shortened(name, width * 0.36));
    const left = Math.ceil(Math.max(...labels.map(widthOf))) + 8;
    const values = chart.series.flat().filter((value) => value !== null);
    const room = Math.max(...values.map((value) => widthOf(show(value)))) + 8;
    const place = (value) => left + (value / Math.max(...values)) * (width - room - left);
    svg.setAttribute("height", chart.rows.length * step + 2);
    const named = new Set(n > 1 ? [] : [0]);
    chart.rows.forEach((name, row) => {
      const group = add(svg, "g", { class: "item" });
      const from = row * step;
      add(group, "rect", { x: 0, y: from, width, height: step, class: "back" });
      add(group, "text", { x: left - 8, y: from + (step + 7) / 2, class: "end" }, labels[row]);
      chart.series.forEach((series, index) => {
        const value = series[row];
        if (value === null || value === undefined) return;
        const y = from + (step - n * (thick + 1)) / 2 + index * (thick + 1);
        const length = Math.max(1, place(value) - left);
        add(group, "rect", { x: left, y, width: length, height: thick, class: `bar c${index % 6}` });
        add(group, "text", { x: left + length + 5, y: y + thick - 2.5, class: "value" }, show(value));
        // The name of a tokenizer is in the first of its bars that is long enough.
        if (!named.has(index) && (length > widthOf(names[index]) + 12 || row === chart.rows.length - 1)) {
          named.add(index);
          add(group, "text", { x: left + 6, y: y + thick - 3, class: "inside" }, shortened(names[index], length - 8));
        }
      });
      group.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect();
        const lines = chart.series.map((series, index) => [index, series[row] === null ? "-" : show(series[row])]);
        showTip(tip, name, lines, event.clientX - box.left, width, event.clientY - box.top);
      });
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  // ---- the file of a chart ----

  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "text-anchor", "font-size", "font-family", "font-weight"];

  // Return a chart as a file that looks like the page, with the title above it.
  function fileOf(svg, title) {
    const copy = svg.cloneNode(true);
    const [shown, copied] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    copied.forEach((element, at) => {
      const style = getComputedStyle(shown[at]);
      for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
      element.removeAttribute("class");
    });
    const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
    const page = getComputedStyle(document.body);
    copy.setAttribute("viewBox", `-16 -44 ${width + 32} ${height + 60}`);
    copy.setAttribute("width", width + 32);
    copy.setAttribute("height", height + 60);
    const head = add(copy, "text", { x: 0, y: -18, fill: page.color, "font-size": 15, "font-weight": 600, "font-family": page.fontFamily }, title);
    copy.prepend(head);
    copy.prepend(add(copy, "rect", { x: -16, y: -44, width: width + 32, height: height + 60, fill: page.backgroundColor, stroke: "none" }));
    return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  }

  // ---- the charts ----

  // A chart has a series for each tokenizer: the two coordinates of its points, or for bars a value of each row.
  const charts = [];
  const lines = (id, title, x, y, series) => charts.push({ id, title, kind: "lines", x, y, series });
  const bars = (id, title, format, rows, series) => charts.push({ id, title, kind: "bars", format, rows, series });

  // Show bytes per token of the texts or scripts that have at least a share of the text, but not more bars than can be read.
  function ratios(id, title, list, key, labels, least) {
    const chosen = stats[0][list].map((row, at) => [row, labels[at]]).filter(([row]) => row.tokens && row.bytes >= least * stats[0].total.bytes).slice(0, Math.min(40, Math.ceil(90 / names.length)));
    const all = stats.map((of) => new Map(of[list].map((row) => [row[key], row.bytes_per_token])));
    const series = all.map((of) => chosen.map(([row]) => (of.has(row[key]) ? of.get(row[key]) : null)));
    if (chosen.length > 1) bars(id, title, "ratio", chosen.map(([, label]) => label), series);
  }

  const longest = Math.max(...meta.curves.lengths.map(([at]) => at.length));
  if (stats.length) {
    lines("compression", "Compression by size of the vocabulary", ["tokens of the vocabulary", "log"], ["bytes per token", "ratio"], meta.curves.compression);
    ratios("scripts", "Bytes per token of each script", "scripts", "script", stats[0].scripts.map((row) => row.script.replaceAll("_", " ")), 0.001);
    ratios("groups", "Bytes per token of each text", "groups", "name", meta.texts, 0);
    const tokens = meta.frequent.map(([token]) => (/^\u2423 ./.test(token) ? token : token.replaceAll(" ", "\u2423")));
    bars("frequent", "The most frequent tokens, by share of the text", "share", tokens, [meta.frequent.map(([, count]) => count / stats[0].total.tokens)]);
    const coverage = stats.map((of) => [of.coverage.map((row) => row.tokens), of.coverage.map((row) => row.share)]);
    lines("coverage", "Coverage by the most frequent tokens", ["most frequent tokens", "log"], ["share of the text", "share"], coverage);
    const used = stats.map((of) => [of.ranks.map((_, at) => at + 1), of.ranks.map((row) => row.used / row.tokens)]);
    lines("ranks", "Use of each tenth of the vocabulary", ["tenths of the vocabulary, by id", "count"], ["share of its tokens", "share"], used);
  }
  lines("lengths", "Tokens by length", [`bytes of a token${longest === 40 ? " (40: and more)" : ""}`, "count"], ["tokens", "count"], meta.curves.lengths);
  if (stats.length) lines("frequencies", "Frequency by rank", ["rank by frequency", "log"], ["occurrences", "log"], meta.curves.frequencies);

  for (const chart of charts) {
    const figure = add(document.getElementById("charts"), "figure", { id: `chart-${chart.id}` });
    const caption = add(figure, "figcaption", {}, chart.title);
    const button = add(caption, "button", { type: "button", class: "save", title: "Save this chart as an SVG file", "aria-label": `Save as SVG: ${chart.title}` }, "\u2193 SVG");
    const tip = add(figure, "div", { class: "tip" });
    tip.hidden = true;
    const canvas = add(figure, "div", { class: "canvas" });
    canvas.append(tip);
    let svg = null;
    let drawn = 0;
    const draw = () => {
      const width = Math.floor(canvas.clientWidth);
      if (!width || width === drawn) return;
      drawn = width;
      if (svg) svg.remove();
      svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      for (const [name, value] of Object.entries({ width, role: "img", "aria-label": chart.title })) svg.setAttribute(name, value);
      (chart.kind === "lines" ? drawLines : drawBars)(svg, chart, width, tip);
      canvas.prepend(svg);
    };
    draw();
    new ResizeObserver(draw).observe(canvas);
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(fileOf(svg, chart.title));
      link.download = `${chart.id}.svg`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
