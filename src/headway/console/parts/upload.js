// An upload: takes a folder or files, sends them in pieces, goes on after a cut, and follows the push that comes of it.
const CHUNK = 8 << 20; // bytes of a request, as `staging.CHUNK`
const BATCH = 1000; // small files in one request
const ASKED = 5000; // files in one question, as `staging.ASKED`
const LANES = 3; // requests at once
const LONGEST_WAIT = 10_000; // milliseconds between tries
const NAME = /^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/;
const TRY_AGAIN = [0, 502, 503, 504];

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const entryFile = (entry) => new Promise((done, failed) => entry.file(done, failed));
const entriesOf = (reader) => new Promise((done, failed) => reader.readEntries(done, failed));
const hidden = (path) => path.split("/").some((part) => part.startsWith("."));

class Stop extends Error {
  constructor(code, said = "", values = {}) {
    super(code);
    Object.assign(this, { code, said, values });
  }
}

// what tells one selection from another; a browser has SHA-256 on https alone
function mix(state, text) {
  let [a, b] = state;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    a = Math.imul(a ^ c, 2654435761);
    b = Math.imul(b ^ c, 1597334677);
  }
  return [a ^ (b >>> 15), b ^ (a >>> 13)];
}

// all files below what was dropped; a folder dropped alone is the dataset, and its name no part of the paths
async function walk(entries, found) {
  const alone = entries.length === 1 && entries[0].isDirectory;
  const waiting = entries.map((entry) => [entry, alone ? "" : entry.name]);
  while (waiting.length) {
    const [entry, path] = waiting.pop();
    if (entry.isFile) {
      await found(path, () => entryFile(entry));
      continue;
    }
    const reader = entry.createReader();
    for (let some = await entriesOf(reader); some.length; some = await entriesOf(reader))
      for (const inner of some) waiting.push([inner, path ? `${path}/${inner.name}` : inner.name]);
  }
  return alone ? entries[0].name : "";
}

export default {
  template: `
    <div class="hw-upload">
      <div v-if="stage === 'choose' || stage === 'reading'" class="hw-drop" :class="{ over }"
           @dragover.prevent="over = true" @dragleave="over = false" @drop.prevent="dropped">
        <p class="hw-strong">{{ stage === 'reading' ? say('up_reading', { n: number(files.length) }) : texts.up_drop }}</p>
        <p class="hw-quiet">{{ texts.up_drop_hint }}</p>
        <div class="hw-answers">
          <button type="button" class="hw-button hw-primary" @click="$refs.folder.click()" :disabled="stage === 'reading'">{{ texts.up_folder }}</button>
          <button type="button" class="hw-button" @click="$refs.files.click()" :disabled="stage === 'reading'">{{ texts.up_files }}</button>
        </div>
        <input ref="folder" type="file" webkitdirectory multiple hidden data-take="folder" @change="picked($event, true)">
        <input ref="files" type="file" multiple hidden data-take="files" @change="picked($event, false)">
      </div>
      <form v-else class="hw-upload-body" @submit.prevent="start">
        <p class="hw-strong hw-upload-what">{{ what }}</p>
        <p v-if="left" class="hw-quiet">{{ say('up_hidden', { n: number(left) }) }}</p>
        <template v-if="stage === 'ready'">
          <label for="upload-name">{{ texts.up_name }}</label>
          <input id="upload-name" class="hw-input" v-model.trim="name" autocomplete="off" spellcheck="false"
                 :aria-invalid="wrongName || null" aria-describedby="upload-hint">
          <p id="upload-hint" :class="wrongName ? 'hw-error' : 'hw-quiet'">{{ texts.up_name_hint }}</p>
          <div class="hw-answers">
            <button type="submit" class="hw-button hw-primary" :disabled="!NAME.test(name)">{{ texts.up_start }}</button>
            <button type="button" class="hw-button" @click="again">{{ texts.up_other }}</button>
          </div>
        </template>
        <template v-else-if="stage !== 'failed'">
          <div class="hw-progress" role="progressbar" aria-valuemin="0" aria-valuemax="100" :aria-valuenow="percent" :aria-label="doing">
            <span :style="{ width: percent + '%' }"></span>
          </div>
          <div class="hw-cells"><strong role="status">{{ doing }}</strong><span class="hw-quiet num">{{ figures }}</span></div>
          <p v-if="waits" class="hw-upload-waits" role="alert">{{ waits }}</p>
          <p v-if="stage === 'sending'" class="hw-quiet">{{ texts.up_resume_hint }}</p>
          <div class="hw-answers"><button type="button" class="hw-button" @click="cancel" data-do="cancel">{{ texts.do_cancel }}</button></div>
        </template>
        <div v-if="stage === 'failed'" class="hw-answers">
          <button type="button" class="hw-button hw-primary" @click="start" data-do="retry">{{ texts.up_try_again }}</button>
          <button type="button" class="hw-button" @click="again">{{ texts.up_other }}</button>
        </div>
      </form>
      <p v-if="failure" class="hw-error" role="alert">{{ failure }}</p>
    </div>`,
  props: { texts: Object, language: String, project: String, dataset: String },
  data() {
    return {
      NAME, stage: "choose", over: false, files: [], bytes: 0, left: 0, name: this.dataset, suggested: false,
      id: "", sent: 0, sentFiles: 0, push: {}, waits: "", failure: "", speed: 0, cancelled: false,
    };
  },
  computed: {
    wrongName() {
      return this.name !== "" && !NAME.test(this.name);
    },
    what() {
      const said = { n: this.number(this.files.length), size: this.size(this.bytes), name: this.name, project: this.project };
      return this.say(this.stage === "ready" ? "up_ready" : "up_goes", said);
    },
    percent() {
      if (this.stage === "publishing") return this.push.of ? Math.floor((100 * this.push.done) / this.push.of) : 0;
      return this.bytes ? Math.floor((100 * this.sent) / this.bytes) : 0;
    },
    doing() {
      return this.texts[this.stage === "publishing" ? `up_push_${this.push.stage}` : "up_sending"] ?? this.texts.up_push_send;
    },
    figures() {
      if (this.stage === "publishing") return this.push.of ? `${this.percent}%` : "";
      const parts = [`${this.size(this.sent)} / ${this.size(this.bytes)}`];
      parts.push(this.say("up_of_files", { n: this.number(this.sentFiles), all: this.number(this.files.length) }));
      if (this.speed) {
        parts.push(`${this.size(this.speed)}/s`);
        parts.push(this.say("up_left", { span: this.span((this.bytes - this.sent) / this.speed) }));
      }
      return parts.join(" · ");
    },
  },
  mounted() {
    // a file dropped beside the box must not replace the page
    this.mind = (event) => event.preventDefault();
    this.leaving = (event) => this.stage === "sending" && event.preventDefault();
    for (const kind of ["dragover", "drop"]) addEventListener(kind, this.mind);
    addEventListener("beforeunload", this.leaving);
  },
  beforeUnmount() {
    this.cancelled = true;
    for (const kind of ["dragover", "drop"]) removeEventListener(kind, this.mind);
    removeEventListener("beforeunload", this.leaving);
  },
  methods: {
    say(key, values) {
      return this.texts[key].replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
    },
    number(count) {
      return count.toLocaleString(this.language);
    },
    size(count) {
      const units = ["B", "KiB", "MiB", "GiB", "TiB"];
      let at = 0;
      for (; count >= 1024 && at < units.length - 1; at++) count /= 1024;
      return at ? `${count.toFixed(1)} ${units[at]}` : `${Math.round(count)} B`;
    },
    span(seconds) {
      if (seconds < 90) return `${Math.ceil(seconds)} ${this.texts.seconds}`;
      const minutes = Math.ceil(seconds / 60);
      if (minutes < 90) return `${minutes} ${this.texts.minutes}`;
      return `${(minutes / 60).toFixed(1)} ${this.texts.hours}`;
    },

    // -- choosing
    again() {
      Object.assign(this, { stage: "choose", files: [], bytes: 0, left: 0, failure: "", waits: "", id: "" });
      if (this.suggested) this.name = this.dataset;
    },
    async picked(event, folder) {
      const chosen = [...event.target.files];
      event.target.value = "";
      if (!chosen.length && !folder) return;
      await this.take(async (found) => {
        for (const file of chosen) {
          const path = file.webkitRelativePath || file.name;
          await found(folder ? path.slice(path.indexOf("/") + 1) : path, () => file);
        }
        return folder && chosen.length ? chosen[0].webkitRelativePath.split("/")[0] : "";
      });
    },
    async dropped(event) {
      this.over = false;
      // they are gone once this function has waited for anything
      const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
      if (this.stage === "choose" && entries.length) await this.take((found) => walk(entries, found));
    },
    async take(source) {
      this.again();
      this.stage = "reading";
      const all = [];
      let bytes = 0, left = 0;
      const found = async (path, open) => {
        if (hidden(path)) return void left++;
        const file = await open();
        all.push({ path, file, bytes: file.size, at: 0 });
        bytes += file.size;
        if (all.length % 500 === 0) this.files = { length: all.length };
      };
      try {
        const name = await source(found);
        all.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
        if (!all.length) throw new Stop(left ? "only_hidden" : "empty");
        const twice = all.find((file, i) => i && file.path === all[i - 1].path);
        if (twice) throw new Stop("twice", "", { path: twice.path });
        // nothing of it changes what is shown, and there may be very many
        Object.assign(this, { files: Object.freeze(all), bytes, left, stage: "ready" });
        this.suggest(name || (all.length === 1 ? all[0].path.replace(/\.[^.]*$/, "") : ""));
      } catch (error) {
        this.fail(error instanceof Stop ? error : new Stop("unreadable", error.message, { path: "" }));
        this.stage = "choose";
      }
    },
    suggest(folder) {
      if (this.name) return;
      this.name = folder.toLowerCase().replace(/[^a-z0-9._-]+/g, "-").slice(0, 64).replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "");
      this.suggested = true;
    },
    key() {
      let state = [0x9e3779b9, 0x85ebca6b];
      for (const { path, file } of this.files) state = mix(state, `${path}\n${file.size}\n${file.lastModified}\n`);
      return state.map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
    },

    // -- sending
    async start() {
      if (!NAME.test(this.name) || !["ready", "failed"].includes(this.stage)) return;
      Object.assign(this, { stage: "sending", failure: "", waits: "", cancelled: false, speed: 0, push: {} });
      try {
        const plan = { project: this.project, name: this.name, key: this.key(), files: this.files.length, bytes: this.bytes };
        const { id, there } = await this.ask("POST", "/upload", JSON.stringify(plan));
        this.id = id;
        for (const file of this.files) file.at = there ? 0 : -1;
        if (there) await this.look(this.files);
        this.count();
        this.watch();
        await this.sendAll();
        await this.follow();
      } catch (error) {
        if (!this.cancelled) await this.orElse(error);
      } finally {
        clearInterval(this.watching);
      }
    },
    // another page may have sent the same files, and have had them published meanwhile
    async orElse(error) {
      try {
        if (error.code !== "gone" || !this.id) throw error;
        await this.follow();
      } catch (last) {
        if (!this.cancelled) this.fail(last);
      }
    },
    // how much of each file is there; -1: it has not come yet
    async look(files) {
      for (let i = 0; i < files.length; i += ASKED) {
        const some = files.slice(i, i + ASKED);
        const held = await this.ask("POST", `/upload/${this.id}/held`, JSON.stringify(some.map((file) => file.path)));
        some.forEach((file, j) => (file.at = Math.min(held[j], file.bytes)));
      }
    },
    count() {
      let sent = 0, files = 0;
      for (const file of this.files) {
        sent += Math.max(file.at, 0);
        if (file.at === file.bytes) files++;
      }
      Object.assign(this, { sent, sentFiles: files });
    },
    // the rate of the last ten seconds
    watch() {
      const seen = [[performance.now(), this.sent]];
      clearInterval(this.watching);
      this.watching = setInterval(() => {
        seen.push([performance.now(), this.sent]);
        if (seen.length > 20) seen.shift();
        const [[then, before], [now, after]] = [seen[0], seen.at(-1)];
        this.speed = Math.max(0, ((after - before) / (now - then)) * 1000);
      }, 500);
    },
    // groups of files that go one request after another: many small ones together, a large one by itself
    *groups() {
      let small = [], bytes = 0;
      for (const file of this.files) {
        if (file.at === file.bytes) continue;
        if (file.bytes > CHUNK) {
          yield [file];
          continue;
        }
        if (small.length && (bytes + file.bytes > CHUNK || small.length === BATCH)) {
          yield small;
          small = [];
          bytes = 0;
        }
        small.push(file);
        bytes += file.bytes;
      }
      if (small.length) yield small;
    },
    async sendAll() {
      const groups = this.groups();
      const lane = async () => {
        for (const group of groups) {
          if (this.cancelled || this.stage !== "sending") return;
          await this.sendGroup(group);
        }
      };
      this.stopped = null;
      await Promise.all(Array.from({ length: LANES }, () => lane().catch((error) => {
        // the first that fails ends the others too
        this.stopped ??= error;
        groups.return();
        for (const request of this.open) request.abort();
      })));
      if (this.stopped) throw this.stopped;
    },
    async sendGroup(group) {
      for (let wait = 500; ; ) {
        const rest = group.filter((file) => file.at < file.bytes);
        if (!rest.length || this.cancelled || this.stopped) return;
        const pieces = rest.map((file) => {
          const from = Math.max(file.at, 0);
          return { file, from, to: Math.min(file.bytes, from + CHUNK) };
        });
        const head = pieces.map(({ file, from, to }) => [file.path, from, to - from, file.bytes]);
        const body = new Blob([JSON.stringify(head), "\n", ...pieces.map(({ file, from, to }) => file.file.slice(from, to))]);
        try {
          await this.request("POST", `/upload/${this.id}/files`, body);
          for (const { file, to } of pieces) {
            this.sent += to - Math.max(file.at, 0);
            file.at = to;
            if (to === file.bytes) this.sentFiles++;
          }
          this.waits = "";
          wait = 500;
        } catch (error) {
          if (this.cancelled) return;
          await this.readable(rest);
          if (!this.worthAnother(error)) throw error;
          this.waits = this.words(error);
          await pause(wait);
          wait = Math.min(2 * wait, LONGEST_WAIT);
          await this.look(rest);
          this.count();
        }
      }
    },
    worthAnother(error) {
      return TRY_AGAIN.includes(error.status) || ["behind", "cut", "no_space", "no_inodes"].includes(error.code);
    },
    // a file that has changed since it was chosen cannot be read any more, which looks like a cut connection
    async readable(files) {
      for (const { file, path } of files) {
        try {
          await file.slice(0, 1).arrayBuffer();
        } catch {
          throw new Stop("unreadable", "", { path });
        }
      }
    },

    // -- publishing
    async follow() {
      let push = await this.ask("POST", `/upload/${this.id}/publish`);
      this.stage = "publishing";
      clearInterval(this.watching);
      while (push.state === "publishing") {
        this.push = push;
        await pause(400);
        if (this.cancelled) return;
        push = await this.ask("GET", `/upload/${this.id}`);
      }
      if (push.state === "published") {
        this.stage = "published";
        location.assign(`/projects/${encodeURIComponent(this.project)}/datasets/${this.name}/${push.version}`);
      } else if (push.state === "failed") throw new Stop("push", this.sentence(push.error));
      else throw new Stop("gone");
    },
    async cancel() {
      this.cancelled = true;
      for (const request of this.open ?? []) request.abort();
      try {
        if (this.id) await this.request("DELETE", `/upload/${this.id}`);
      } catch {
        // what is left of it is swept
      }
      this.again();
    },

    // -- asking
    // one that is lost on the way is asked again until it is answered, or somebody cancels
    async ask(method, address, body) {
      for (let wait = 500; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
        try {
          const answer = await this.request(method, address, body);
          this.waits = "";
          return answer;
        } catch (error) {
          if (this.cancelled || !TRY_AGAIN.includes(error.status)) throw error;
          this.waits = this.words(error);
          await pause(wait);
        }
      }
    },
    request(method, address, body) {
      return new Promise((done, failed) => {
        const request = new XMLHttpRequest();
        (this.open ??= new Set()).add(request);
        request.open(method, address);
        request.timeout = 300_000;
        const refuse = (code, said = "") => {
          const stop = new Stop(code, said);
          stop.status = request.status;
          failed(stop);
        };
        request.onload = () => {
          let answer = {};
          try {
            answer = JSON.parse(request.responseText);
          } catch {
            // what stands between may answer with a page
          }
          if (request.status === 200) done(answer);
          else if (request.status === 401) {
            this.stage = "failed";
            location.assign("/login?error=expired");
          } else refuse(TRY_AGAIN.includes(request.status) ? "away" : answer.error?.code ?? "answer", this.sentence(answer.error));
        };
        request.onerror = request.ontimeout = request.onabort = () => refuse("away");
        request.onloadend = () => this.open.delete(request);
        request.send(body);
      });
    },
    sentence(error) {
      return error ? [error.message, error.remedy].filter(Boolean).join(" ") : "";
    },
    // in the reader's language where there are words for it
    words(error) {
      const known = this.texts[`up_error_${error.code}`];
      return known ? this.say(`up_error_${error.code}`, { said: error.said ?? "", ...error.values }) : error.said || this.texts.up_error_answer;
    },
    fail(error) {
      clearInterval(this.watching);
      for (const request of this.open ?? []) request.abort();
      this.failure = this.words(error instanceof Stop ? error : new Stop("answer", String(error)));
      this.waits = "";
      this.stage = "failed";
    },
  },
};
