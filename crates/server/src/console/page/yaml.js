// A value as YAML: plain where that is safe, quoted as JSON where it is not.

const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./-]*$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n)$/i;

function scalar(value) {
  if (typeof value === "string") return PLAIN.test(value) && !WORDS.test(value) ? value : JSON.stringify(value);
  return JSON.stringify(value);
}

export function yaml(value, indent = "") {
  if (Array.isArray(value)) return value.map((each) => indent + "- " + nested(each, indent + "  ").trimStart()).join("\n");
  return Object.entries(value).map(([key, each]) => indent + scalar(key) + ":" + below(each, indent)).join("\n");
}

const holds = (value) => typeof value === "object" && value !== null && Object.keys(value).length > 0;
const empty = (value) => (Array.isArray(value) ? "[]" : typeof value === "object" && value !== null ? "{}" : scalar(value));
const nested = (value, indent) => (holds(value) ? yaml(value, indent) : empty(value));
const below = (value, indent) => (holds(value) ? "\n" + yaml(value, indent + "  ") : " " + empty(value));
