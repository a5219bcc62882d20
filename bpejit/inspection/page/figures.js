"use strict";
// The head and the tables of the page. Names come from strangers: text is only ever set as textContent, never as markup.

const meta = JSON.parse(document.getElementById("meta").textContent);
const { names, stats } = meta;

// Append an element to another, with the same namespace.
function add(parent, tag, attributes = {}, text) {
  const made = document.createElementNS(parent.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

const formats = {
  count: (value) => value.toLocaleString("en-US"),
  log: (value) => value.toLocaleString("en-US"),
  ratio: (value) => value.toFixed(2),
  exact: (value) => value.toFixed(3),
  share: (value) => `${(100 * value).toFixed(1)} %`,
  merges: (value) => (value < 0 ? "by rank" : formats.count(value)),
  bits: (value) => `${value.toFixed(2)} bits`,
  short: (value) => (value >= 1e9 ? `${(value / 1e9).toFixed(2)} G` : value >= 1e6 ? `${(value / 1e6).toFixed(2)} M` : formats.count(value)),
};
const shown = (value, format) => (value === null || value === undefined ? "-" : formats[format](value));

const nameOf = (parent, index) => add(parent, "span", { class: `name c${index % 6}`, title: names[index] }, names[index]);

// ---- head: a sentence and four figures ----

(() => {
  const lead = document.getElementById("lead");
  const totals = stats.map((of) => of.total);
  const ofVocabulary = (field, format) => meta.vocabularies.map((vocabulary) => shown(vocabulary[field], format));
  const [sizes, merges, specials, longest] = [["tokens", "count"], ["merges", "merges"], ["specials", "count"], ["longest", "count"]].map((of) => ofVocabulary(...of));
  const cards = [["Vocabulary", sizes, `${merges[0] === "by rank" ? "merges by rank" : `${merges[0]} merges`}, ${specials[0]} special token${specials[0] === "1" ? "" : "s"}`]];
  if (!stats.length) {
    add(lead, "b", {}, `${sizes[0]} tokens`);
    lead.append(`, the longest of ${longest[0]} bytes.`);
    cards.push(["Merges", merges, "pairs of tokens"], ["Special tokens", specials, "not made by merges"], ["Longest token", longest, "bytes"]);
    cards[0][2] = "tokens";
  } else {
    const total = totals[0];
    names.slice(1).forEach((name, index) => {
      const ratio = total.tokens / Math.max(totals[index + 1].tokens, 1);
      const size = formats.share(Math.abs(1 - ratio));
      if (index) lead.append(index < names.length - 2 ? ", " : " and ");
      const same = Math.abs(1 - ratio) < 0.0005;
      const count = same ? "as many tokens" : ratio >= 2 ? `${ratio.toFixed(1)} times as many tokens` : `${size} ${ratio < 1 ? "fewer" : "more"} tokens`;
      add(lead, "b", {}, count);
      lead.append(`${same || ratio >= 2 ? " as " : " than "}${name}`);
    });
    if (names.length === 1) add(lead, "b", {}, `${formats.exact(total.bytes_per_token)} bytes per token`);
    lead.append(names.length === 1 ? ` on this corpus, with ${formats.share(total.vocab_share)} of the vocabulary.` : " on this corpus.");
    const column = (field, format) => totals.map((of) => shown(of[field], format));
    cards.push(["Bytes per token", column("bytes_per_token", "exact"), `${shown(total.characters_per_token, "exact")} characters, ${shown(total.words_per_token, "exact")} words`]);
    cards.push(["Tokens of the text", column("tokens", "short"), `of ${formats.short(total.bytes)}${total.bytes < 1e6 ? " bytes" : "B"} of text`]);
    cards.push(["Vocabulary used", column("vocab_share", "share"), `${formats.count(total.unused_tokens)} tokens do not occur`]);
  }
  for (const [title, values, note] of cards) {
    const card = add(document.getElementById("cards"), "div", { class: "card" });
    add(card, "h3", {}, title);
    add(card, "strong", {}, values[0]);
    add(card, "p", { class: "quiet" }, note);
    const list = add(card, "ul");
    values.slice(1).forEach((value, index) => {
      const item = add(list, "li");
      nameOf(item, index + 1);
      add(item, "span", {}, value);
    });
  }
})();

// ---- tables ----

// Fill a cell for each value, and mark the best if they differ. The sign says whether larger or smaller ones are better.
function addValues(row, values, format, sign, labels) {
  const texts = values.map((value) => shown(value, format));
  const known = values.filter((value) => value !== null && value !== undefined);
  const best = sign && new Set(texts).size > 1 ? shown(sign * Math.max(...known.map((value) => sign * value)), format) : null;
  texts.forEach((text, index) => {
    const cell = add(row, "td", { "data-label": labels[index] });
    if (text === best) add(cell, "b", { class: "best", title: "the best of the row" }, text);
    else cell.textContent = text;
  });
}

// Return the body of a new table; heads are texts, and numbers of tokenizers.
function addTable(parent, kind, heads) {
  const table = add(parent, "table", { class: kind });
  table.style.setProperty("--n", heads.length - 1);
  const row = add(add(table, "thead"), "tr");
  for (const head of heads) {
    const cell = add(row, "th", { scope: "col" }, typeof head === "string" ? head : undefined);
    if (typeof head === "number") nameOf(cell, head);
  }
  return add(table, "tbody");
}

// The titles, fields and formats of the figures, and whether larger (1) or smaller ones (-1) are better.
const ON_THE_TEXT = [
  ["bytes of text", "bytes", "count", 0],
  ["tokens of the text", "tokens", "count", -1],
  ["bytes per token", "bytes_per_token", "exact", 1],
  ["characters per token", "characters_per_token", "exact", 1],
  ["words per token", "words_per_token", "exact", 1],
  ["single bytes", "single_byte_share", "share", -1],
  ["parts of characters", "partial_share", "share", -1],
  ["entropy", "entropy", "bits", 0],
  ["Renyi efficiency", "renyi_efficiency", "exact", 1],
  ["vocabulary used", "vocab_share", "share", 1],
  ["tokens used", "used_tokens", "count", 0],
  ["tokens unused", "unused_tokens", "count", 0],
];
const SUPERWORDS_ON_THE_TEXT = [
  ["text in superwords", "superword_share", "share", 0],
  ["bytes per token without superwords", "bytes_per_word_token", "exact", 0],
];
const OF_THE_VOCABULARY = [
  ["tokens", "tokens", "count", 0],
  ["special tokens", "specials", "count", 0],
  ["merges", "merges", "merges", 0],
];
const SUPERWORDS = [
  ["superwords", "superwords", "count", 0],
  ["words in a token, most", "most_words", "count", 0],
];
const COMPARED = [
  [`shared with ${names[0]}`, "shared", "count", 0],
  ["alone, without those shared", "alone", "count", 0],
  ["rank correlation", "rank_correlation", "exact", 0],
];

(() => {
  const indices = [...names.keys()];
  const body = addTable(document.getElementById("summary"), "values", ["", ...indices]);
  const group = (title, figures, rows) => {
    if (!rows.length) return;
    add(add(body, "tr"), "th", { scope: "rowgroup", colspan: names.length + 1 }, title);
    for (const [label, field, format, sign] of figures) {
      const row = add(body, "tr");
      add(row, "td", {}, label);
      addValues(row, rows.map((of) => of[field]), format, sign, names);
    }
  };
  const hasSuperwords = meta.vocabularies.some((of) => of.superwords);
  group("On the text", hasSuperwords ? [...ON_THE_TEXT, ...SUPERWORDS_ON_THE_TEXT] : ON_THE_TEXT, stats.map((of) => of.total));
  group("Vocabulary", [...OF_THE_VOCABULARY, ...(hasSuperwords ? SUPERWORDS : []), ...(names.length > 1 ? COMPARED : [])], meta.vocabularies);

  for (const [what, list, key, fields] of [["text", "groups", "name", ["bytes", "words"]], ["script", "scripts", "script", ["bytes", "characters", "words"]]]) {
    const all = stats.map((of) => new Map(of[list].map((row) => [row[key], row])));
    if (!all.length || !all[0].size) continue;
    const details = add(document.getElementById("tables"), "details");
    add(details, "summary", {}, `Bytes per token of ${formats.count(all[0].size)} ${what}${all[0].size === 1 ? "" : "s"}`);
    const rows = addTable(details, "stack", [what, ...fields, ...indices]);
    for (const [name, of] of all[0]) {
      const row = add(rows, "tr");
      add(add(row, "td"), "span", { class: "path" }, key === "script" ? name.replaceAll("_", " ") : name);
      addValues(row, fields.map((field) => of[field]), "count", 0, fields);
      addValues(row, all.map((other) => (other.get(name) || {}).bytes_per_token), "exact", 1, names);
    }
  }
})();
