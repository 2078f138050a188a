// An evaluation's page: fetches the drawing and has the report's part draw it; draws anew when told of a change.
export default {
  template: `<div><p class="hw-quiet" v-if="note" role="status">{{ note }}</p><div ref="root"></div></div>`,
  props: { address: String, script: String, words: Object, language: String, changes: Number },
  data() {
    return { note: this.words.ev_loading };
  },
  async mounted() {
    this.alive = true;
    // the first look comes with the first change: once changes are told, so that none is missed
    this.seen = 0;
    this.mount = (await import(this.script)).mount;
    this.look();
  },
  beforeUnmount() {
    this.alive = false;
    this.drawn?.close();
  },
  watch: {
    changes() { this.look(); },
  },
  methods: {
    /** One look at a time; what changes meanwhile is looked at next, and slow answers are asked for less often. */
    async look() {
      if (this.busy || !this.mount) return;
      this.busy = true;
      while (this.alive && this.seen !== this.changes) {
        this.seen = this.changes;
        const began = performance.now();
        if (!(await this.fetch())) this.seen = -1;
        await new Promise((done) => setTimeout(done, Math.max(1000, 3 * (performance.now() - began))));
      }
      this.busy = false;
    },
    async fetch() {
      let answer = null;
      try { answer = await fetch(`${this.address}/drawing`, { headers: { Accept: "application/json" } }); } catch { /* the server is away */ }
      if (answer?.redirected) location.assign("/login?error=expired");
      if (!answer?.ok) {
        this.note = answer && answer.status < 500 ? await answer.text() : this.words.away;
        return answer !== null && answer.status < 500;
      }
      const data = await answer.json();
      if (!this.alive) return true;
      this.note = "";
      document.title = `${data.evaluation.name} · headway`;
      if (this.drawn) this.drawn.update(data);
      else this.drawn = this.mount(this.$refs.root, { data, words: this.words, language: this.language, media: this.media });
      return true;
    },
    media(cell, output, what) {
      const name = output.name.split("/").map(encodeURIComponent).join("/");
      const kind = what === "thumb" ? "thumbs" : "files";
      return { url: `${this.address}/cells/${cell[2]}/${kind}/${name}?as=${output.as}&sha=${output.sha.slice(0, 16)}` };
    },
  },
};
