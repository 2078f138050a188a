// The table of runs: filters in the browser, ticks the durations of live runs, tells which run was chosen.
const LIVE = ["starting", "running", "stopping"];
const GROUPS = {
  all: () => true,
  live: (r) => LIVE.includes(r.state),
  waiting: (r) => r.state === "queued" || r.state === "held",
  failed: (r) => r.state === "failed",
  done: (r) => r.state === "succeeded" || r.state === "stopped",
};

export default {
  template: `
    <section class="hw-runs" :aria-label="texts.runs">
      <div class="hw-bar">
        <h2>{{ texts.runs }}</h2>
        <div class="hw-groups" role="group" :aria-label="texts.state">
          <button v-for="g in groups" :key="g" type="button" :aria-pressed="group === g" @click="group = g">
            {{ texts['show_' + g] }} <span class="hw-count" v-if="counts[g]">{{ counts[g] }}</span>
          </button>
        </div>
        <input class="hw-filter" type="search" v-model="words" :placeholder="texts.filter" :aria-label="texts.filter" />
      </div>
      <div class="hw-scroll" v-if="shown.length">
        <table class="hw-table">
          <thead>
            <tr>
              <th scope="col" class="num">#</th>
              <th scope="col">{{ texts.name }}</th>
              <th scope="col">{{ texts.kind }}</th>
              <th scope="col">{{ texts.state }}</th>
              <th scope="col">{{ texts.spec }}</th>
              <th scope="col">{{ texts.node_column }}</th>
              <th scope="col">{{ texts.started }}</th>
              <th scope="col" class="num">{{ texts.duration }}</th>
              <th scope="col" class="num">{{ texts.cost }}</th>
            </tr>
          </thead>
          <tbody>
            <tr v-for="r in shown" :key="r.id" :data-run="r.id" tabindex="0" :class="{ chosen: r.id === chosen }"
                :aria-selected="r.id === chosen" @click="pick(r)" @keydown.enter.prevent="pick(r)"
                @keydown.space.prevent="pick(r)" @keydown.down.prevent="step($event, 1)"
                @keydown.up.prevent="step($event, -1)">
              <td class="num c-id">{{ r.id }}</td>
              <td class="c-name"><span class="hw-name" :title="r.name">{{ r.name || texts.unnamed }}</span></td>
              <td class="c-kind">{{ r.kind }}</td>
              <td class="c-state">
                <span class="hw-state" :class="'s-' + r.state">{{ r.state_text }}</span>
                <div class="hw-reason" v-if="r.reason" :title="r.reason">{{ r.reason }}</div>
              </td>
              <td class="c-spec">{{ r.spec }}</td>
              <td class="c-node">{{ r.node || '–' }}</td>
              <td class="c-started" :title="full(r.started)">{{ clock(r.started) }}</td>
              <td class="num c-duration">{{ duration(r) }}</td>
              <td class="num c-cost">{{ r.cost }}</td>
            </tr>
          </tbody>
        </table>
      </div>
      <div class="hw-empty" v-else-if="loaded && rows.length">
        <p>{{ texts.no_match }}</p>
        <button type="button" class="hw-button" @click="words = ''; group = 'all'">{{ texts.clear_filter }}</button>
      </div>
      <div class="hw-empty" v-else-if="loaded">
        <p class="hw-strong">{{ texts.no_runs }}</p>
        <p>{{ texts.no_runs_hint }}</p>
        <code>headway job submit --name first -- python train.py</code>
      </div>
      <div class="hw-empty hw-wait" v-else aria-busy="true"><p>{{ texts.connecting }}</p></div>
      <button v-if="more && loaded" type="button" class="hw-button hw-more" @click="$emit('older')">
        {{ texts.older }}
      </button>
    </section>`,
  props: { rows: Array, texts: Object, language: String, chosen: Number, loaded: Boolean, more: Boolean },
  emits: ["pick", "older"],
  data() {
    return { words: "", group: "all", now: Date.now(), groups: Object.keys(GROUPS), timer: null };
  },
  computed: {
    counts() {
      const found = {};
      for (const g of this.groups) found[g] = this.rows.filter(GROUPS[g]).length;
      return found;
    },
    shown() {
      const words = this.words.trim().toLowerCase().split(/\s+/).filter(Boolean);
      return this.rows.filter((r) => {
        if (!GROUPS[this.group](r)) return false;
        const text = [r.id, r.name, r.kind, r.state, r.state_text, r.spec, r.node, r.by, r.reason].join(" ").toLowerCase();
        return words.every((w) => text.includes(w));
      });
    },
  },
  mounted() {
    this.timer = setInterval(() => {
      if (!document.hidden && this.rows.some(GROUPS.live)) this.now = Date.now();
    }, 1000);
  },
  beforeUnmount() {
    clearInterval(this.timer);
  },
  methods: {
    pick(run) {
      this.$emit("pick", run.id);
    },
    step(event, by) {
      const other = by > 0 ? event.currentTarget.nextElementSibling : event.currentTarget.previousElementSibling;
      if (other) other.focus();
    },
    clock(ms) {
      if (!ms) return "–";
      const time = new Date(ms);
      const today = new Date().toDateString() === time.toDateString();
      const day = today ? {} : { month: "short", day: "numeric" };
      return time.toLocaleString(this.language, { ...day, hour: "2-digit", minute: "2-digit", hour12: false });
    },
    full(ms) {
      return ms ? new Date(ms).toLocaleString(this.language) : "";
    },
    duration(run) {
      if (!run.started) return "–";
      const seconds = Math.max(0, Math.floor(((run.ended || this.now) - run.started) / 1000));
      const two = (n) => String(n).padStart(2, "0");
      const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
      return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
    },
  },
};
