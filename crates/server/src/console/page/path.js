// A path of a printer column in an object: `.status.conditions[type="Ready"].status`.

export function at(object, path) {
  let value = object;
  for (const [, field, key, wanted] of path.matchAll(/\.([^.[\]]+)|\[([^=\]]+)="?([^"\]]*)"?\]/g)) {
    if (value === undefined || value === null) return undefined;
    value = field !== undefined ? value[field] : Array.isArray(value) ? value.find((each) => String(each?.[key]) === wanted) : undefined;
  }
  return value;
}
