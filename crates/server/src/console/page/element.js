// Elements. Text goes in as text: nothing a user named can become markup.

/** element("td", {class: "plain"}, "text", child, …) */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== "").map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/** A link to a page; every part is encoded. */
export function link(text, ...parts) {
  return element("a", { href: "#/" + parts.map(encodeURIComponent).join("/") }, text);
}

export function notice(text, bad = true) {
  return element("p", { class: bad ? "notice bad" : "notice", role: bad ? "alert" : undefined }, text);
}

export function heading(title, under) {
  return [element("h1", {}, title), element("p", { class: "under" }, under ?? "")];
}

/** Names and values; those without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return element("dl", {}, shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}
