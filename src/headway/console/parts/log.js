// A log: takes lines, keeps the newest ones, follows the end until the reader scrolls away from it.
const KEPT = 5000;

export default {
  template: `
    <div class="hw-log">
      <div class="hw-lines" ref="box" tabindex="0" role="log" :aria-label="label" :class="{ wrap }" @scroll="scrolled">
        <p class="hw-note" v-if="cut && lines.length">{{ cut }}</p>
        <div v-for="l in lines" :key="l.n" class="hw-line" :class="'l-' + l.stream">
          <span class="t" :title="l.full">{{ l.time }}</span><span class="r" v-if="ranks">{{ l.rank }}</span><span class="x">{{ l.text }}</span>
        </div>
        <p class="hw-note" v-if="note">{{ note }}</p>
      </div>
      <button type="button" class="hw-button hw-jump" v-if="!following && lines.length" @click="jump">
        {{ texts.log_paused }}
      </button>
    </div>`,
  props: { texts: Object, language: String, label: String, note: String, cut: String, wrap: Boolean, ranks: Boolean },
  data() {
    return { lines: [], following: true, count: 0, last: 0 };
  },
  mounted() {
    // a box that changes its size stays at the end
    this.watch = new ResizeObserver(() => this.following && this.toEnd());
    this.watch.observe(this.$refs.box);
  },
  beforeUnmount() {
    this.watch.disconnect();
  },
  methods: {
    clear() {
      this.lines = [];
      this.following = true;
    },
    push(lines) {
      const made = lines.map(([ms, rank, stream, text]) => {
        const at = new Date(ms);
        const time = at.toLocaleTimeString(this.language, { hour12: false });
        return Object.freeze({ n: this.count++, full: at.toLocaleString(this.language), time, rank, stream, text });
      });
      const all = this.lines.concat(made);
      this.lines = all.length > KEPT ? all.slice(-KEPT) : all;
      if (this.following) this.$nextTick(this.toEnd);
    },
    toEnd() {
      const box = this.$refs.box;
      if (!box) return;
      box.scrollTop = box.scrollHeight;
      this.last = box.scrollTop;
    },
    jump() {
      this.following = true;
      this.toEnd();
    },
    scrolled() {
      const box = this.$refs.box;
      // lines that came since are no reason to stop: only the reader's own way up is
      if (box.scrollHeight - box.scrollTop - box.clientHeight < 24) this.following = true;
      else if (box.scrollTop < this.last - 4) this.following = false;
      this.last = box.scrollTop;
    },
  },
};
