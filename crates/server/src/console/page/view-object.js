// One object of any kind, as it is stored: as YAML or as JSON.
import { element, heading, link } from "./element.js";
import { ask } from "./server.js";
import { yaml } from "./yaml.js";

let form = "YAML";

export async function draw([kind, namespace, name]) {
  const { object, revision } = await ask("object", { kind, namespace, name });
  const text = element("pre", { tabindex: 0 });
  const buttons = ["YAML", "JSON"].map((each) => element("button", { onclick: () => choose(each) }, each));
  const choose = (chosen) => {
    form = chosen;
    text.textContent = form === "YAML" ? yaml(object) : JSON.stringify(object, null, 2);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === form));
  };
  choose(form);
  return { revision, content: [heading(name, [link(kind, "kind", kind), namespace ? ` in ${namespace}` : "", ` · revision ${object.metadata.revision}`]), element("div", { class: "tools" }, buttons), text] };
}
