// Outputs as pictures, playing videos, sound and text.
import { bytes, el } from "./base.js";

/** The output that stands for a cell: its first video, else image, else sound; undefined without one. */
export function face(cell) {
  for (const kind of ["video", "image", "audio"]) {
    const found = cell[8].find((output) => output.as === kind);
    if (found) return found;
  }
  return undefined;
}

/** A small still picture that plays while the pointer is on it; `plays(node)` is called with what can play. */
export function small(view, cell, output, plays) {
  if (output.as === "audio") return el("span", { class: "ev-note-sign", "aria-hidden": "true" }, "♪");
  const holder = el("span", { class: `ev-small ev-as-${output.as}` });
  const thumb = view.media(cell, output, "thumb");
  if (thumb.url) {
    const image = el("img", { src: thumb.url, loading: "lazy", alt: "", draggable: "false" });
    image.addEventListener("error", () => {
      image.remove();
      const file = output.as === "image" ? view.media(cell, output, "file") : {};
      holder.prepend(file.url && image.src !== file.url ? el("img", { src: file.url, loading: "lazy", alt: "" }) : sign(output));
    }, { once: true });
    holder.append(image);
  } else {
    holder.append(sign(output));
  }
  if (output.as === "video") {
    holder.play = () => play(view, cell, output, holder);
    holder.pause = () => holder.querySelector("video")?.remove();
    holder.addEventListener("pointerenter", holder.play);
    holder.addEventListener("pointerleave", () => { if (!view.playing) holder.pause(); });
    plays?.(holder);
  }
  return holder;
}

function sign(output) {
  return el("span", { class: "ev-note-sign", "aria-hidden": "true" }, output.as === "video" ? "▶" : "▣");
}

function play(view, cell, output, holder) {
  const file = view.media(cell, output, "file");
  if (!file.url || holder.querySelector("video")) return;
  const video = el("video", { src: file.url, muted: true, loop: true, playsinline: true, preload: "auto", "aria-hidden": "true" });
  // the still picture stays until there is something to see
  video.addEventListener("error", () => video.remove());
  video.addEventListener("loadeddata", () => { video.classList.add("ev-is-shown"); video.play().catch(() => {}); });
  holder.append(video);
}

/** Plays what is in sight, at most `most` at once; returns a function that ends it. */
export function playInSight(holders, most = 60) {
  const playing = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) { target.pause(); playing.delete(target); } else if (playing.size < most) { playing.add(target); target.play(); }
    }
  });
  holders.forEach((holder) => observer.observe(holder));
  return () => { observer.disconnect(); playing.forEach((holder) => holder.pause()); };
}

/** An output in full: with controls, or its first lines, or where it is. */
export function large(view, cell, output) {
  const file = view.media(cell, output, "file");
  const thumb = view.media(cell, output, "thumb");
  const label = `${view.rowName(cell[0])}, ${view.columnName(cell[1])}: ${output.name}`;
  const box = el("figure", { class: `ev-large ev-as-${output.as}` });
  if (file.url && output.as === "video") {
    const video = el("video", { src: file.url, controls: true, loop: true, muted: true, autoplay: true, playsinline: true, "aria-label": label, poster: thumb.url });
    video.addEventListener("error", () => {
      video.replaceWith(...still(thumb, label), el("p", { class: "ev-quiet" }, view.t("ev_not_playable")));
    });
    box.append(video);
  } else if (file.url && output.as === "image") {
    box.append(el("img", { src: file.url, alt: label }));
  } else if (file.url && output.as === "audio") {
    box.append(el("audio", { src: file.url, controls: true, "aria-label": label }));
  } else if (output.as === "text" && (file.url || file.text !== undefined)) {
    box.append(lines(view, file));
  } else {
    if (["video", "image"].includes(output.as)) box.append(...still(thumb, label));
    if (file.missing) box.append(el("p", { class: "ev-quiet" }, view.t(file.missing === "limit" ? "ev_not_embedded" : "ev_not_fetched", { limit: file.limit })));
  }
  const facts = [output.width && `${output.width} × ${output.height}`, (output.frames > 1 || output.as === "video") && output.frames && view.t("ev_frames", { n: output.frames }),
    output.seconds && `${Number(output.seconds.toFixed(2))} s`, output.codec, bytes(output.bytes)];
  box.append(el("figcaption", null, el("code", null, output.name), el("span", { class: "ev-quiet" }, facts.filter(Boolean).join(" · ")),
    file.url && !file.missing && el("a", { href: file.url, download: output.name.split("/").pop(), class: "ev-link" }, view.t("ev_download"))));
  return box;
}

function still(thumb, label) {
  return thumb.url ? [el("img", { src: thumb.url, alt: label })] : [];
}

function lines(view, file) {
  const most = 4000;
  const shown = el("pre", { class: "ev-text", tabindex: "0" });
  const show = (text) => { shown.textContent = pretty(text.slice(0, most)) + (text.length > most ? `\n${view.t("ev_cut")}` : ""); };
  if (file.text !== undefined) show(file.text);
  else fetch(file.url, { headers: { Range: `bytes=0-${most * 2}` } }).then((r) => (r.ok ? r.text() : "")).then(show).catch(() => {});
  return shown;
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
