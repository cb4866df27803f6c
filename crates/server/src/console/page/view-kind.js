// Kinds: the list of them, and any of them as a table with its own columns; decisions and events newest first.
import { age } from "./age.js";
import { element, heading, link } from "./element.js";
import { at } from "./path.js";
import { decisions, events } from "./record.js";
import { ask } from "./server.js";
import { table } from "./table.js";

/** Buttons for the first page and the next one. */
export function pager(page, found) {
  if (!page.after && !found.continue) return "";
  return element("div", { class: "tools" },
    element("button", { onclick: () => page.go(""), disabled: !page.after }, "First page"),
    element("button", { onclick: () => page.go(found.continue), disabled: !found.continue }, "Next page"),
    found.remaining ? element("span", { class: "soft" }, `${found.remaining} more`) : "");
}

function shown(column, value) {
  if (value === undefined || value === null) return "";
  if (column.type === "time") return age(value);
  return typeof value === "object" ? { long: JSON.stringify(value) } : String(value).length > 40 ? { long: String(value) } : String(value);
}

export async function all() {
  const found = await ask("kinds");
  const rows = found.kinds.map((it) => ({ key: it.kind, revision: 0, cells: [link(it.kind, "kind", it.kind), it.plural, it.namespaced ? "namespaced" : "cluster", it.custom ? "defined here" : "built in"] }));
  return { revision: found.revision, content: [heading("Kinds"), table("Kinds", ["Kind", "Plural", "Scope", ""], rows, "There are none.")] };
}

export const newest = (kind) => async () => {
  const found = await ask("newest", { kind, limit: 200 });
  const part = found.complete ? "newest first" : `the newest of the first ${found.lookedAt}; there are more than the console looks at`;
  return { revision: found.revision, content: [heading(kind + "s", part), (kind === "Event" ? events : decisions)(found.objects)] };
};

export async function draw([kind], page) {
  const [{ kinds }, found] = await Promise.all([ask("kinds"), ask("list", { kind, limit: 100, continue: page.after })]);
  const info = kinds.find((it) => it.kind === kind) ?? { columns: [], namespaced: true, plural: kind };
  const columns = info.columns.filter((column) => !column.priority);
  const rows = found.objects.map((it) => {
    const { namespace = "", name, uid, revision } = it.metadata;
    return { key: uid, revision, cells: [link(name, "object", kind, namespace, name), ...(info.namespaced ? [namespace] : []), ...columns.map((column) => shown(column, at(it, column.path)))] };
  });
  const names = ["Name", ...(info.namespaced ? ["Namespace"] : []), ...columns.map((column) => column.name)];
  return { revision: found.revision, content: [heading(kind, info.plural), table(kind, names, rows, "There are none."), pager(page, found)] };
}
