// The report's page: what stands in the file is read, drawn, and drawn anew in the other language.
import { bytes, el, fill } from "./base.js";
import { mount } from "./viewer.js";

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** Links to what the file holds; a video becomes a blob once it is looked at. */
function shelf(media) {
  const made = new Map();
  return (cell, output, what) => {
    const held = media.files[output.sha] || {};
    if (what === "thumb") return held.thumb ? { url: held.thumb } : {};
    if (held.text !== undefined) return { text: held.text };
    if (held.file === undefined) return { missing: held.missing || "limit", limit: bytes(media.limit) };
    if (!made.has(output.sha)) {
      const raw = atob(held.file);
      const all = new Uint8Array(raw.length);
      for (let at = 0; at < raw.length; at++) all[at] = raw.charCodeAt(at);
      made.set(output.sha, URL.createObjectURL(new Blob([all], { type: held.type })));
    }
    return { url: made.get(output.sha) };
  };
}

function start() {
  const [data, words, media, made] = ["data", "words", "media", "made"].map(read);
  const root = document.getElementById("root");
  const look = shelf(media);
  let language = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
  if (made.language) language = made.language;
  let theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  let drawn = null;
  const draw = () => {
    const t = (key, values) => fill(words[language][key], values);
    document.documentElement.dataset.theme = theme;
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    document.title = `${data.evaluation.name} · ${t("ev_report")}`;
    const tools = [
      el("button", { type: "button", class: "ev-button", "data-do": "language", onclick: () => { language = language === "zh" ? "en" : "zh"; draw(); } }, t("ev_language")),
      el("button", { type: "button", class: "ev-button", "data-do": "theme", title: t("ev_theme"), "aria-label": t("ev_theme"), onclick: () => { theme = theme === "dark" ? "light" : "dark"; document.documentElement.dataset.theme = theme; } }, "◐"),
    ];
    drawn?.close();
    drawn = mount(root, { data, words: words[language], language: document.documentElement.lang, media: look, tools });
    document.getElementById("foot").textContent = t("ev_made", { when: new Date(made.at).toLocaleString(document.documentElement.lang) });
  };
  draw();
}

start();
