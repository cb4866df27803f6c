// A table. Rows that changed since it was last drawn are lit up for a moment.
import { element } from "./element.js";

const seen = new Map();

/** `columns` are names, `rows` are {key, revision, cells}; a cell is text, an element, or {long} for texts that may break. */
export function table(name, columns, rows, empty) {
  if (!rows.length) return element("p", { class: "soft" }, empty);
  const before = seen.get(name);
  const now = new Map(rows.map((row) => [row.key, row.revision]));
  seen.set(name, now);
  const cell = (value) => (value?.long !== undefined ? element("td", { class: "long" }, value.long) : element("td", { class: "plain" }, value ?? ""));
  const line = (row) => element("tr", { class: before && before.get(row.key) !== row.revision ? "changed" : undefined, "data-key": row.key }, row.cells.map(cell));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    element("table", {}, element("thead", {}, element("tr", {}, columns.map((column) => element("th", { scope: "col" }, column)))), element("tbody", {}, rows.map(line))));
}

/** Another page begins: what the last one showed is forgotten. */
export function forget() {
  seen.clear();
}
