"""The page that shows the OpenAPI document: one file without anything from elsewhere, so that it works offline."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>headway API</title>
<style>
  :root { color-scheme: light dark; --line: #8883; --soft: #8881; }
  body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1.5rem; }
  h1 { margin: 0 0 .2rem; } h2 { margin: 2rem 0 .5rem; text-transform: capitalize; }
  input { font: inherit; padding: .4rem .6rem; width: 100%; box-sizing: border-box; margin: 1rem 0 0;
          border: 1px solid var(--line); border-radius: .4rem; background: transparent; color: inherit; }
  details { border: 1px solid var(--line); border-radius: .4rem; margin: .35rem 0; }
  details[open] > summary { border-bottom: 1px solid var(--line); }
  summary { cursor: pointer; padding: .4rem .7rem; display: flex; gap: .8rem; align-items: baseline; }
  summary code { font-weight: 600; } summary span { opacity: .75; }
  .method { font: 600 12px ui-monospace, monospace; min-width: 4rem; }
  .get { color: #1a7f37; } .post { color: #0969da; } .put { color: #9a6700; } .delete { color: #cf222e; }
  .body { padding: .4rem .9rem .8rem; }
  table { border-collapse: collapse; width: 100%; } td { padding: .15rem .6rem .15rem 0; vertical-align: top; }
  pre { background: var(--soft); padding: .6rem; border-radius: .4rem; overflow: auto; margin: .3rem 0 .8rem; }
  h3 { margin: .8rem 0 .2rem; font-size: 1rem; }
</style>
<h1>headway API</h1>
<div id="about"></div>
<input id="search" type="search" placeholder="Search routes" autofocus>
<main id="routes">Loading&hellip;</main>
<script>
const make = (tag, text, cls) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  return node;
};
let spec;
const resolve = schema => schema && schema.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema;
function shape(schema, depth = 0) {
  const name = schema && schema.$ref ? schema.$ref.split("/").pop() : "";
  const s = resolve(schema);
  if (!s) return "anything";
  if (s.anyOf) return s.anyOf.map(o => shape(o, depth)).join(" | ");
  if (s.enum) return s.enum.map(v => JSON.stringify(v)).join(" | ");
  if (s.type === "array") return "[" + shape(s.items, depth) + "]";
  if (s.properties && depth < 3) {
    const pad = "  ".repeat(depth + 1);
    const rows = Object.entries(s.properties).map(([key, value]) => {
      const optional = (s.required || []).includes(key) ? "" : "?";
      const usual = value.default !== undefined ? " = " + JSON.stringify(value.default) : "";
      return pad + key + optional + ": " + shape(value, depth + 1) + usual;
    });
    return (name ? name + " " : "") + "{\\n" + rows.join("\\n") + "\\n" + "  ".repeat(depth) + "}";
  }
  if (name) return name;
  return (s.type || "anything") + (s.format ? " (" + s.format + ")" : "");
}
function route(path, method, op) {
  const box = make("details");
  const head = make("summary");
  head.append(make("b", method.toUpperCase(), "method " + method), make("code", path));
  head.append(make("span", op.description || op.summary));
  const body = make("div", undefined, "body");
  const parameters = op.parameters || [];
  if (parameters.length) {
    body.append(make("h3", "Parameters"));
    const table = make("table");
    for (const p of parameters) {
      const row = make("tr");
      const usual = p.schema && p.schema.default !== undefined ? " = " + JSON.stringify(p.schema.default) : "";
      row.append(make("td", p.name), make("td", p.in + (p.required ? ", required" : "")));
      row.append(make("td", shape(p.schema) + usual));
      table.append(row);
    }
    body.append(table);
  }
  const content = op.requestBody && op.requestBody.content;
  for (const [type, media] of Object.entries(content || {})) {
    body.append(make("h3", "Body (" + type + ")"), make("pre", shape(media.schema)));
  }
  for (const [status, answer] of Object.entries(op.responses || {})) {
    if (!/^2/.test(status)) continue;
    const media = answer.content && Object.values(answer.content)[0];
    body.append(make("h3", "Answer " + status), make("pre", media ? shape(media.schema) : "empty"));
  }
  box.append(head, body);
  box.dataset.text = (method + " " + path + " " + (op.description || "")).toLowerCase();
  return box;
}
fetch("openapi.json").then(answer => answer.json()).then(found => {
  spec = found;
  document.getElementById("about").textContent =
    "Version " + spec.info.version + ". Send Authorization: Bearer TOKEN. " + spec.info.description;
  const groups = {};
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      const tag = (op.tags || ["other"])[0];
      (groups[tag] = groups[tag] || []).push(route(path, method, op));
    }
  }
  const main = document.getElementById("routes");
  main.textContent = "";
  for (const [tag, routes] of Object.entries(groups)) {
    const section = make("section");
    section.append(make("h2", tag), ...routes);
    main.append(section);
  }
}).catch(error => { document.getElementById("routes").textContent = "The document cannot be read: " + error; });
document.getElementById("search").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/);
  for (const box of document.querySelectorAll("details")) box.hidden = !words.every(w => box.dataset.text.includes(w));
  for (const section of document.querySelectorAll("section"))
    section.hidden = ![...section.querySelectorAll("details")].some(box => !box.hidden);
});
</script>
</html>
"""
