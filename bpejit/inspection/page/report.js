// The table of tokens. Tokens come from strangers: text is only ever set as textContent, never as markup.
(async () => {
  const ROW = 28; // height of a row in pixels, as in report.css
  const byId = (id) => document.getElementById(id);

  async function unpack(text) {
    let packed;
    if (Uint8Array.fromBase64) packed = Uint8Array.fromBase64(text);
    else {
      const binary = atob(text);
      packed = new Uint8Array(binary.length);
      for (let at = 0; at < binary.length; at++) packed[at] = binary.charCodeAt(at);
    }
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  const block = new Uint8Array(await unpack(byId("data").textContent));
  const types = { u1: Uint8Array, i4: Int32Array, f8: Float64Array };
  const data = {};
  for (const [name, [type, offset, length]] of Object.entries(meta.arrays)) {
    // The first bytes of all values are followed by all second bytes, and so on.
    const width = types[type].BYTES_PER_ELEMENT;
    const bytes = new Uint8Array(length * width);
    for (let part = 0; part < width; part++) {
      for (let at = 0, from = offset + part * length; at < length; at++) bytes[at * width + part] = block[from + at];
    }
    data[name] = new types[type](bytes.buffer);
  }
  const n = data.lengths.length;

  // Restore the tokens that are merged from two others, which are known before or found in a later pass.
  const merged = [];
  const isMerged = (id) => data.left[id] >= 0;
  const stored = new Uint32Array(n + 1);
  for (let id = 0; id < n; id++) stored[id + 1] = stored[id] + data.lengths[id];
  let waiting = [...data.left.keys()].filter(isMerged);
  while (waiting.length) {
    waiting = waiting.filter((id) => {
      const [left, right] = [data.lengths[data.left[id]], data.lengths[data.right[id]]];
      if (!left || !right) return true;
      data.lengths[id] = left + right;
      merged.push(id);
      return false;
    });
  }
  const starts = new Uint32Array(n + 1);
  for (let id = 0; id < n; id++) starts[id + 1] = starts[id] + data.lengths[id];
  const text = new Uint8Array(starts[n]);
  for (let id = 0; id < n; id++) if (!isMerged(id)) text.set(data.pool.subarray(stored[id], stored[id + 1]), starts[id]);
  for (const id of merged) {
    const [left, right] = [data.left[id], data.right[id]];
    text.copyWithin(starts[id], starts[left], starts[left + 1]);
    text.copyWithin(starts[id] + data.lengths[left], starts[right], starts[right + 1]);
  }
  data.pool = text;
  const bytesOf = (id) => data.pool.subarray(starts[id], starts[id + 1]);
  const others = meta.names.slice(1);
  others.forEach((_, index) => {
    const ids = data["other" + index].values();
    data["other" + index] = Int32Array.from(data["shared" + index], (shared) => (shared ? ids.next().value : -1));
  });

  // ---- visible text: the rules of bpejit/inspection/visible_text.py ----

  const hex = (value, digits) => value.toString(16).padStart(digits, "0");
  const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  const hidden = /[\p{C}\p{Z}]/u;
  const mark = /^\p{M}/u;

  // Return the code point and width of the character at a position, or null if it is not valid UTF-8.
  function character(bytes, at) {
    const first = bytes[at];
    if (first < 0x80) return [first, 1];
    const width = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    if (!width || at + width > bytes.length) return null;
    let point = first & (0x7f >> width);
    for (let next = at + 1; next < at + width; next++) {
      if ((bytes[next] & 0xc0) !== 0x80) return null;
      point = (point << 6) | (bytes[next] & 0x3f);
    }
    const least = [0, 0, 0x80, 0x800, 0x10000][width];
    return point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? null : [point, width];
  }

  function pieces(bytes) {
    const found = [];
    let plain = "";
    const flush = () => { if (plain) found.push([plain, false]); plain = ""; };
    for (let at = 0; at < bytes.length; ) {
      const decoded = character(bytes, at);
      if (!decoded) {
        flush();
        found.push(["\\x" + hex(bytes[at], 2), true]);
        at += 1;
        continue;
      }
      const [point, width] = decoded;
      const text = String.fromCodePoint(point);
      if (at === 0 && mark.test(text)) plain = "\u25cc";
      if (text !== " " && hidden.test(text)) {
        flush();
        found.push([named[text] || (point <= 0xffff ? "\\u" + hex(point, 4) : "\\U" + hex(point, 8)), true]);
      } else plain += text;
      at += width;
    }
    flush();
    return found;
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const add = (parent, ...rest) => parent.append(element(...rest));

  // A token of spaces is shown as their number.
  function visible(bytes) {
    return bytes.length > 1 && bytes.every((byte) => byte === 32) ? [[`\u2423 \u00d7 ${bytes.length}`, true]] : pieces(bytes);
  }

  function show(target, id) {
    target.replaceChildren();
    for (const [text, escaped] of visible(bytesOf(id))) {
      const leading = !escaped && !target.childNodes.length && text.startsWith(" ") ? 1 : 0;
      if (leading) add(target, "b", "space", " ");
      add(target, escaped ? "i" : "b", "", text.slice(leading));
    }
    return target;
  }

  const number = (value) => value.toLocaleString("en-US");

  // ---- order and filter ----

  const compareBytes = (a, b) => {
    const stop = Math.min(data.lengths[a], data.lengths[b]);
    for (let at = 0, x = starts[a], y = starts[b]; at < stop; at++) {
      const difference = data.pool[x + at] - data.pool[y + at];
      if (difference) return difference;
    }
    return data.lengths[a] - data.lengths[b];
  };
  const orders = {
    id: null,
    token: compareBytes,
    bytes: (a, b) => data.lengths[b] - data.lengths[a] || a - b,
    count: (a, b) => data.counts[b] - data.counts[a] || a - b,
  };
  others.forEach((_, index) => {
    const ids = data["other" + index];
    orders["other" + index] = (a, b) => (ids[a] < 0) - (ids[b] < 0) || ids[a] - ids[b] || a - b;
  });
  const sorted = {};
  const inUse = new Uint32Array(n).map((_, id) => id).filter((id) => data.lengths[id] > 0);
  let key = data.counts ? "count" : "id";
  let descending = false;
  let rows = inUse;

  function order() {
    if (!sorted[key]) sorted[key] = orders[key] ? inUse.slice().sort(orders[key]) : inUse;
    return descending ? sorted[key].slice().reverse() : sorted[key];
  }

  const lower = data.pool.map((byte) => (byte >= 65 && byte <= 90 ? byte + 32 : byte));

  // Return the bytes that a search text stands for; escapes are those that the table shows.
  function wanted(text) {
    const codes = { "\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\" };
    const found = [];
    const encoder = new TextEncoder();
    const parts = text.match(/\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|\\[nrt\\]|[^]/giu) || [];
    for (const part of parts) {
      if (/^\\x/i.test(part) && part.length === 4) found.push(parseInt(part.slice(2), 16));
      else if (/^\\u/i.test(part) && part.length > 2) {
        const point = parseInt(part.slice(2), 16);
        found.push(...encoder.encode(point <= 0x10ffff ? String.fromCodePoint(point) : part));
      } else found.push(...encoder.encode(codes[part] || part));
    }
    return found.map((byte) => (byte >= 65 && byte <= 90 ? byte + 32 : byte));
  }

  function matches(text) {
    const id = /^#(\d+)$/.exec(text);
    if (id) return (other) => other === Number(id[1]);
    const query = wanted(text);
    return (other) => {
      const stop = starts[other + 1] - query.length;
      for (let at = starts[other]; at <= stop; at++) {
        let same = 0;
        while (same < query.length && lower[at + same] === query[same]) same++;
        if (same === query.length) return true;
      }
      return false;
    };
  }

  const filters = { all: () => true, unused: (id) => !data.counts[id], used: (id) => data.counts[id] > 0 };
  meta.kinds.forEach((kind, bit) => { filters[kind] = (id) => (data.flags[id] >> bit) & 1; });

  const options = [["all", "all tokens"], ...(data.counts ? [["used", "used"], ["unused", "unused"]] : []), ...meta.kinds.map((kind) => [kind, meta.titles[kind]])];
  for (const [value, title] of options) {
    const option = element("option", "", title);
    option.value = value;
    byId("filter").append(option);
  }
  const titles = { id: "id", token: "token", bytes: "bytes", ...(data.counts && { count: "count" }) };
  others.forEach((name, index) => { titles["other" + index] = `id in ${name}`; });
  for (const [name, title] of Object.entries(titles)) {
    const head = element("button", name.startsWith("other") ? "wide" : "", title);
    Object.assign(head, { type: "button", title });
    Object.assign(head.dataset, { key: name, title });
    byId("heads").append(head);
  }
  byId("grid").style.setProperty("--counts", data.counts ? "96px" : "");
  byId("grid").style.setProperty("--others", " 110px".repeat(others.length));

  function update() {
    const text = byId("search").value;
    const chosen = filters[byId("filter").value];
    const match = text ? matches(text) : null;
    rows = order();
    if (match || byId("filter").value !== "all") rows = rows.filter((id) => chosen(id) && (!match || match(id)));
    byId("status").textContent = `${number(rows.length)} of ${number(inUse.length)} tokens`;
    byId("spacer").style.height = `${rows.length * ROW}px`;
    byId("rows").setAttribute("aria-rowcount", rows.length);
    byId("rows").scrollTop = 0;
    current = rows.length ? 0 : -1;
    for (const head of document.querySelectorAll(".heads button")) {
      const ours = head.dataset.key === key;
      const falls = descending !== (key === "bytes" || key === "count"); // largest first, unless reversed
      head.setAttribute("aria-sort", ours ? (falls ? "descending" : "ascending") : "none");
      head.textContent = head.dataset.title + (ours ? (falls ? " ▾" : " ▴") : "");
    }
    render();
  }

  // ---- rows: only the visible ones exist ----

  let current = -1;
  const pool = [];
  const columns = Object.keys(titles);

  function cells(row, id) {
    if (row.token === id) return;
    row.token = id;
    columns.forEach((name, index) => {
      const cell = row.children[index];
      if (name === "token") show(cell, id);
      else if (name === "id") cell.textContent = id;
      else if (name === "bytes") cell.textContent = data.lengths[id];
      else if (name === "count") cell.textContent = number(data.counts[id]);
      else cell.textContent = data[name][id] < 0 ? "-" : data[name][id];
    });
  }

  function render() {
    const view = byId("rows");
    const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / ROW) + 4);
    while (pool.length < last - first) {
      const row = element("div", "row");
      row.setAttribute("role", "row");
      for (const name of columns) {
        const cell = element("span", name === "token" ? "token" : name.startsWith("other") ? "wide" : "");
        cell.setAttribute("role", "gridcell");
        row.append(cell);
      }
      byId("spacer").append(row);
      pool.push(row);
    }
    pool.forEach((row, index) => {
      const at = first + index;
      row.hidden = at >= last;
      row.style.display = row.hidden ? "none" : "";
      if (row.hidden) return;
      row.style.top = `${at * ROW}px`;
      row.at = at;
      row.id = `row${at}`;
      row.setAttribute("aria-rowindex", at + 1);
      row.classList.toggle("current", at === current);
      cells(row, rows[at]);
    });
    if (current >= 0) view.setAttribute("aria-activedescendant", `row${current}`);
  }

  function move(to) {
    if (!rows.length) return;
    current = Math.max(0, Math.min(rows.length - 1, to));
    const view = byId("rows");
    if (current * ROW < view.scrollTop) view.scrollTop = current * ROW;
    else if ((current + 1) * ROW > view.scrollTop + view.clientHeight) view.scrollTop = (current + 1) * ROW - view.clientHeight;
    render();
  }

  // ---- detail of a token: its merge tree, and the tokens merged from it ----

  function link(id) {
    const made = show(element("button", "link"), id);
    made.type = "button";
    made.title = `id ${id}`;
    made.addEventListener("click", () => detail(id));
    return made;
  }

  function tree(id) {
    const item = element("li");
    const stack = [[item, id]];
    while (stack.length) { // not recursive: a chain of merges may be as long as a token
      const [parent, token] = stack.pop();
      parent.append(link(token), element("span", "quiet", ` ${token}`));
      if (data.left[token] >= 0) {
        const list = element("ul");
        const [left, right] = [element("li"), element("li")];
        list.append(left, right);
        parent.append(list);
        stack.push([right, data.right[token]], [left, data.left[token]]);
      }
    }
    return item;
  }

  function detail(id) {
    const panel = byId("detail");
    panel.replaceChildren();
    panel.dataset.token = id;
    panel.append(show(element("h3", "token"), id));
    const facts = [`id ${id}`, `${data.lengths[id]} byte${data.lengths[id] === 1 ? "" : "s"}: ${[...bytesOf(id)].map((byte) => hex(byte, 2)).join(" ")}`];
    if (data.counts) facts.push(`${number(data.counts[id])} occurrences`);
    facts.push(...meta.kinds.filter((_, bit) => (data.flags[id] >> bit) & 1).map((kind) => meta.titles[kind] || kind));
    for (const fact of facts) panel.append(element("div", "quiet", fact));
    panel.append(element("h3", "", "Merge tree"));
    const list = element("ul", "tree");
    list.append(tree(id));
    panel.append(list);
    const next = [];
    for (let other = 0; other < n && next.length < 40; other++) if (data.left[other] === id || data.right[other] === id) next.push(other);
    if (next.length) {
      panel.append(element("h3", "", next.length < 40 ? "Merged into" : "Merged into, the first 40"));
      const links = element("div", "links");
      links.append(...next.map(link));
      panel.append(links);
    }
  }

  // ---- unused and suspicious tokens ----

  const kinds = meta.kinds.filter((kind) => kind !== "special" && kind !== "partial").map((kind) => [kind, meta.titles[kind]]);
  if (data.counts) kinds.unshift(["unused", "not used in these texts"]);
  const isPart = (id) => data.lengths[id] === 1 || Boolean(filters.partial(id));
  for (const [kind, title] of kinds) {
    const ids = Array.from(inUse.filter(filters[kind]));
    ids.sort((a, b) => isPart(a) - isPart(b)); // these are of less interest
    add(byId("suspicious"), "h3", "", `${title[0].toUpperCase()}${title.slice(1)}: ${number(ids.length)}`);
    const links = element("div", "links");
    links.append(...ids.slice(0, 24).map((id) => {
      const made = link(id);
      made.dataset.token = id;
      made.addEventListener("click", () => byId("detail").scrollIntoView({ block: "nearest" }));
      return made;
    }));
    if (ids.length) {
      const more = element("button", "", "show in the table");
      more.type = "button";
      more.dataset.filter = kind;
      links.append(more);
    }
    byId("suspicious").append(links);
  }

  // ---- events ----

  byId("rows").addEventListener("scroll", render, { passive: true });
  window.addEventListener("resize", render);
  byId("rows").addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (!row) return;
    move(row.at);
    detail(rows[row.at]);
  });
  byId("rows").addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(byId("rows").clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) move(current + steps[event.key]);
    else if (event.key === "Enter" && current >= 0) detail(rows[current]);
    else return;
    event.preventDefault();
  });
  for (const head of document.querySelectorAll(".heads button")) {
    head.addEventListener("click", () => {
      descending = key === head.dataset.key && !descending;
      key = head.dataset.key;
      update();
    });
  }
  let timer = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, 80);
  });
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") byId("search").value = "";
    else if (event.key === "ArrowDown") byId("rows").focus();
    else return;
    update();
    event.preventDefault();
  });
  byId("filter").addEventListener("change", update);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    byId("search").focus();
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("button[data-filter]")) {
    button.addEventListener("click", () => {
      byId("filter").value = button.dataset.filter;
      byId("search").value = "";
      update();
      current = Math.max(0, rows.findIndex((id) => data.lengths[id] > 1)); // past single bytes, such as control characters
      byId("rows").scrollTop = current * ROW;
      render();
      byId("tokens").scrollIntoView();
      byId("rows").focus({ preventScroll: true });
    });
  }

  update();
  // Begin with the merges of a token: the longest word in view, or of the first tokens that are merged, or any of these.
  const isWord = (id) => isMerged(id) && /^ ?\p{L}+$/u.test(new TextDecoder().decode(bytesOf(id)));
  const first = rows.filter(isMerged).slice(0, 40);
  const [candidates] = [rows.slice(0, 14).filter(isWord), first.filter(isWord), first].filter((ids) => ids.length);
  if (candidates) {
    const begin = candidates.reduce((best, id) => (data.lengths[id] > data.lengths[best] ? id : best));
    current = rows.indexOf(begin);
    if (current >= 14) byId("rows").scrollTop = (current - 2) * ROW;
    render();
    detail(begin);
  }
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
