"use strict";
// Sums up the figures of what a reader selects, from the cube in the page, and draws them. Text from
// the wire is set as text only, never as markup.
(async () => {
  const NONE = -2;
  const OTHERS = -1;
  const MISSING = "-";
  const DIMENSIONS = [["client", "Client"], ["api", "API"], ["topic", "Topic"], ["broker", "Broker"], ["group", "Group"]];
  const byId = (id) => document.getElementById(id);

  // -- what stands in the page ------------------------------------------------------------------

  const inflate = async (text) => {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const model = await inflate(JSON.parse(byId("data").textContent).data);
  const linesOf = (columns) => {
    const names = Object.keys(columns);
    const many = names.length ? columns[names[0]].length : 0;
    return Array.from({ length: many }, (_, at) => Object.fromEntries(names.map((name) => [name, columns[name][at]])));
  };
  const cells = linesOf(model.cells);
  const failures = linesOf(model.failures);
  const batches = linesOf(model.batches);
  const partsOfTime = linesOf(model.latency_parts);
  const kindOf = (api) => (api >= 0 ? model.names.api[api].kind : "");
  const labelOf = (dimension, number) =>
    number >= 0 ? model.names[dimension][number].label : number === OTHERS ? model.others[dimension] : MISSING;

  // -- numbers for people -----------------------------------------------------------------------

  // Round half to even, as Python does.
  const fixed = (number, decimals) => {
    const twice = number * 2 * 10 ** decimals;
    if (decimals >= 0 && Number.isInteger(number * 2 ** (decimals + 1)) && Number.isInteger(twice) && twice % 2 === 1) {
      const low = (twice - 1) / 2;
      return ((low % 2 === 0 ? low : low + 1) / 10 ** decimals).toFixed(decimals);
    }
    return number.toFixed(Math.max(decimals, 0));
  };
  const three = (number) => {
    if (number === 0) return 0;
    if (number >= 1000) return Number(number.toPrecision(3));
    return Number(fixed(number, 2 - Math.floor(Math.log10(number))));
  };
  const digits = (number) => {
    if (Number.isInteger(number)) return String(number);
    const rounded = three(number);
    return fixed(rounded, rounded < 10 ? 2 : rounded < 100 ? 1 : 0);
  };
  const scaled = (number) => {
    const prefixes = ["", "k", "M", "G", "T", "P", "E", "Z"];
    let at = 0;
    while (at < prefixes.length - 1 && three(number) >= 1000) {
      number /= 1000;
      at += 1;
    }
    return [digits(number), prefixes[at]];
  };
  const countText = (count) => (count === null ? MISSING : String(count).replace(/\B(?=(\d{3})+$)/g, ","));
  const bytesText = (size) => (size === null ? MISSING : scaled(size).join(" ") + "B");
  const rateText = (amount, ns, unit) => {
    const [number, prefix] = scaled((amount * 1e9) / ns);
    return unit ? `${number} ${prefix}${unit}/s` : `${number}${prefix}/s`;
  };
  const two = (number) => String(number).padStart(2, "0");
  const durationText = (ns) => {
    if (!ns) return ns === null ? MISSING : "0 s";
    if (ns < 0) return `-${durationText(-ns)}`;
    for (const [unit, size] of [["ns", 1], ["\u00b5s", 1e3], ["ms", 1e6]]) {
      if (three(ns / size) < 1000) return `${digits(ns / size)} ${unit}`;
    }
    if (three(ns / 1e9) < 120) return `${digits(ns / 1e9)} s`;
    const seconds = Math.floor(ns / 1e9);
    const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
    if (days) return `${days}d${two(hours % 24)}h`;
    return hours ? `${hours}h${two(minutes % 60)}m` : `${minutes}m${two(seconds % 60)}s`;
  };
  const isoText = (us) => new Date(Math.floor(us / 1000)).toISOString();
  const clockText = (us) => {
    if (us === null) return MISSING;
    let shift = model.offsets[0][1];
    for (const [from, offset] of model.offsets) if (from <= us) shift = offset;
    const text = isoText(us + shift);
    return model.dated ? `${text.slice(5, 10)} ${text.slice(11, 19)}` : text.slice(11, 23);
  };
  const percentText = (share) =>
    share === 0 || share === 1 ? `${100 * share} %` : `${Math.min(Math.max(100 * share, 0.01), 99.99).toFixed(2)} %`;
  const recordsText = (count, isKnown) => (!count && !isKnown ? "unknown" : (isKnown ? "" : "\u2265") + countText(count));

  // -- what is selected -------------------------------------------------------------------------

  const selected = { client: null, api: null, topic: null, broker: null, group: null, from: null, to: null };
  const isSelected = () => Object.values(selected).some((value) => value !== null);
  const isInSpan = (bucket) =>
    selected.from === null || (bucket >= selected.from && bucket <= selected.to);
  const isIn = (line, withTopic) =>
    ["client", "api", "broker", "group"].every((name) => selected[name] === null || line[name] === selected[name]) &&
    (!withTopic || selected.topic === null || line.topic === selected.topic) &&
    isInSpan(line.bucket);

  const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

  // -- sums -------------------------------------------------------------------------------------

  const COUNTS = [
    "requests", "responses", "errors", "unread", "unanswered", "sent", "received", "produces", "fetches", "joins", "syncs",
    "leaves", "heartbeats", "commits", "records", "records_in", "records_out", "bytes_in", "bytes_out", "uncounted", "throttled",
  ];
  const BY_KIND = {
    produce: "produces", fetch: "fetches", join: "joins", sync: "syncs", leave: "leaves", heartbeat: "heartbeats", commit: "commits",
  };
  const GROUPED = {
    apis: ["api", "waited"], clients: ["client"], client_apis: ["client", "api"], topics: ["topic"], topic_apis: ["topic", "api"],
    brokers: ["broker"], groups: ["group"], versions: ["api", "version"],
  };
  const BY_TOPIC = ["topics", "topic_apis"];
  const WITHOUT_ORPHANS = ["clients", "client_apis", "groups", "versions"];

  const lineIn = (found, key, make) => {
    const text = key.join();
    if (!found.has(text)) found.set(text, make(key));
    return found.get(text);
  };
  const newSum = (key) => ({
    ...Object.fromEntries(COUNTS.map((name) => [name, 0])),
    key, versions: new Set(), clientSet: new Set(), bins: new Map(), max: null,
  });
  const add = (sum, cell, kind, isOwn, isTimed) => {
    if (kind === "produce" || kind === "fetch") {
      const way = kind === "produce" ? "in" : "out";
      sum.records += cell.records;
      sum[`records_${way}`] += cell.records;
      sum[`bytes_${way}`] += cell.record_bytes;
    }
    if (!isOwn) return;
    if (cell.status !== "orphan_response") {
      sum.requests += cell.rows;
      sum.versions.add(cell.version);
      sum.clientSet.add(cell.client);
      if (kind in BY_KIND) sum[BY_KIND[kind]] += cell.rows;
    }
    if (cell.status === "error") sum.errors += cell.rows;
    sum.unread += cell.unread;
    if (cell.status === "unanswered") sum.unanswered += cell.rows;
    sum.responses += cell.responses;
    sum.sent += cell.request_bytes;
    sum.received += cell.response_bytes;
    sum.uncounted += cell.uncounted;
    sum.throttled += cell.throttled;
    if (isTimed && cell.max_ns !== null) {
      sum.max = sum.max === null ? cell.max_ns : Math.max(sum.max, cell.max_ns);
      for (let at = 0; at < cell.latencies.length; at += 2) {
        const bin = cell.latencies[at];
        sum.bins.set(bin, (sum.bins.get(bin) || 0) + cell.latencies[at + 1]);
      }
    }
  };
  const exactOf = (name) => {
    const found = new Map();
    for (const line of model.exact[name] || []) {
      const key = line.slice(0, -5);
      const waited = line[line.length - 5];
      if (name === "apis") found.set([...key, waited].join(), line.slice(-4));
      else if (!waited) found.set(key.join(), line.slice(-4));
    }
    return found;
  };
  const exact = Object.fromEntries(Object.keys(model.exact).map((name) => [name, exactOf(name)]));
  // Bins below 0 have negative latencies: bin -1 - b has those of which bin b has the opposite.
  const middleOf = (bin) => (bin < 0 ? -1 : 1) * model.bin_ratio ** Math.abs(bin + 0.5);
  const placeOf = (ns) => Math.sign(ns) * (Math.log(Math.max(Math.abs(ns), 1)) / Math.log(model.bin_ratio));
  const finished = (sum, name) => {
    const bins = [...sum.bins].sort((a, b) => a[0] - b[0]);
    const many = bins.reduce((total, pair) => total + pair[1], 0);
    for (const [quantile, share] of [["p50", 0.5], ["p90", 0.9], ["p99", 0.99]]) {
      const rank = Math.max(Math.ceil(many * share), 1);
      let seen = 0;
      const bin = bins.find((pair) => (seen += pair[1]) >= rank);
      sum[quantile] = bin ? Math.min(middleOf(bin[0]), sum.max) : null;
    }
    const known = isSelected() || !exact[name] ? undefined : exact[name].get(sum.key.join());
    if (known) [sum.p50, sum.p90, sum.p99, sum.max] = known;
    sum.clients = sum.clientSet.size;
    sum.many = many;
    return sum;
  };
  const sumsOfCells = () => {
    const tables = Object.fromEntries(Object.keys(GROUPED).map((name) => [name, new Map()]));
    const whole = newSum([]);
    const times = Array.from({ length: model.buckets }, (_, bucket) => newSum([bucket]));
    for (const cell of cells) {
      if (!isIn(cell, true)) continue;
      const kind = kindOf(cell.api);
      const isOwn = !cell.is_again || selected.topic !== null;
      for (const [name, keys] of Object.entries(GROUPED)) {
        if (BY_TOPIC.includes(name) ? cell.topic === NONE : name === "groups" && cell.group === NONE) continue;
        if (WITHOUT_ORPHANS.includes(name) && cell.status === "orphan_response") continue;
        const line = lineIn(tables[name], keys.map((each) => cell[each]), newSum);
        add(line, cell, kind, isOwn || BY_TOPIC.includes(name), !cell.waited || name === "apis");
      }
      add(whole, cell, kind, isOwn, !cell.waited);
      if (times[cell.bucket]) add(times[cell.bucket], cell, kind, isOwn, !cell.waited);
    }
    const lines = Object.entries(tables).map(([name, found]) => [name, [...found.values()].map((sum) => finished(sum, name))]);
    return {
      ...Object.fromEntries(lines),
      totals: finished(whole, "totals"),
      times: times.map((sum) => finished(sum, "times")),
    };
  };
  const sumsOfFailures = () => {
    const found = new Map();
    for (const cell of failures) {
      if (!isIn(cell, true) || (cell.is_again && selected.topic === null)) continue;
      const key = [cell.code, cell.api, cell.client, cell.is_topicless ? NONE : cell.topic];
      const line = lineIn(found, key, () => ({ key, count: 0, first: null, last: null }));
      line.count += cell.rows;
      if (cell.first_time_ns !== null) {
        line.first = line.first === null ? cell.first_time_ns : Math.min(line.first, cell.first_time_ns);
        line.last = line.last === null ? cell.last_time_ns : Math.max(line.last, cell.last_time_ns);
      }
    }
    return [...found.values()];
  };
  const sumsOfBatches = (keyOf, isProduce) => {
    const found = new Map();
    for (const cell of batches) {
      const produces = kindOf(cell.api) === "produce";
      if (!isIn(cell, true) || (isProduce && (!produces || cell.codec === null))) continue;
      const key = keyOf(cell);
      const line = lineIn(found, key, () => ({
        key, batches: 0, produces: 0, fetches: 0, records_in: 0, records_out: 0, bytes_in: 0, bytes_out: 0, mark: null,
      }));
      const way = produces ? "in" : "out";
      line.batches += cell.rows;
      line[produces ? "produces" : "fetches"] += cell.rows;
      line[`records_${way}`] += cell.records;
      line[`bytes_${way}`] += cell.record_bytes;
      if (cell.high_watermark !== null) line.mark = Math.max(line.mark || 0, cell.high_watermark);
    }
    for (const line of found.values()) {
      line.bytes_each = Math.floor(line.bytes_in / line.batches);
      line.records_each = Math.floor(line.records_in / line.batches);
    }
    return [...found.values()];
  };
  const PARTS = model.parts.filter((part) => part.column).map((part) => part.column);
  const PART_COUNTS = ["rows", "resent", "closed", ...PARTS, "client_network_ns", "client_network_rows"];
  const sumsOfParts = (keys) => {
    const found = new Map();
    for (const cell of partsOfTime) {
      if (!isIn(cell, true) || (cell.is_again && selected.topic === null)) continue;
      const key = keys.map((each) => cell[each]);
      const line = lineIn(found, key, () => ({ key, ...Object.fromEntries(PART_COUNTS.map((name) => [name, 0])) }));
      for (const name of PART_COUNTS) line[name] += cell[name];
    }
    for (const line of found.values()) {
      line.requests = line.rows;
      line.parts = PARTS.map((name) => line[name]);
      line.whole = total(line.parts);
      line.total = Math.floor(line.whole / line.rows);
      for (const name of PARTS) line[name] = Math.floor(line[name] / line.rows);
      const far = line.client_network_rows;
      line.client_network_ns = far ? Math.floor(line.client_network_ns / far) : null;
    }
    return [...found.values()];
  };
  const slowest = () =>
    model.slowest
      .filter((line) => isIn(line, false) && (selected.topic === null || line.topics.includes(selected.topic)))
      .map((line) => ({ ...line, key: [] }));
  const allSums = () => ({
    ...sumsOfCells(),
    latency_parts: sumsOfParts(["api", "broker", "capture_point"]),
    all_parts: sumsOfParts([]),
    errors: sumsOfFailures(),
    partitions: sumsOfBatches((cell) => [cell.part], false),
    codecs: sumsOfBatches((cell) => [cell.client, cell.codec], true),
    slowest: slowest(),
    ...Object.fromEntries(["tls", "lag", "flows", "changes"].map((name) => [name, model[name].map((line) => ({ ...line, key: [] }))])),
  });

  // -- tables -----------------------------------------------------------------------------------

  const NUMBERS = ["count", "failed", "bytes", "ns", "records", "time"];
  const numberText = (kind, value) => {
    if (value === null) return MISSING;
    if (kind === "bytes") return bytesText(value);
    if (kind === "ns") return durationText(Math.floor(value));
    return kind === "time" ? clockText(value) : countText(value);
  };
  const byLength = (a, b) => a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
  const written = (column, line) => {
    const { kind, field, dimension, key_index: keyIndex } = column;
    if (kind === "name") return labelOf(dimension, line.key[keyIndex]);
    if (kind === "info") return line.key[keyIndex] >= 0 ? model.names[dimension][line.key[keyIndex]][field] : MISSING;
    if (kind === "api") return labelOf("api", line.key[0]) + (line.key[1] ? " (waited)" : "");
    if (kind === "versions") {
      return [...line.versions].filter((each) => each >= 0).map((each) => labelOf("version", each)).sort(byLength).join(" ") || MISSING;
    }
    if (kind === "key") return String(line.key[keyIndex]);
    if (kind === "records") {
      return ["produce", "fetch"].includes(kindOf(line.key[0])) ? recordsText(line.records, !line.uncounted) : MISSING;
    }
    if (field === "topics_label") {
      const names = line.topics.filter((each) => each !== NONE).map((each) => labelOf("topic", each));
      return names.slice(0, 3).join(", ") + (names.length > 3 ? ", \u2026" : "") || MISSING;
    }
    return kind === "text" ? line[field] : numberText(kind, line[field]);
  };
  const inOrder = (a, b) => {
    for (let at = 0; at < a.key.length; at += 1) {
      const [one, other] = [a.key[at], b.key[at]];
      if (one === other) continue;
      if (typeof one === "string") return one < other ? -1 : 1;
      return one < 0 !== other < 0 ? (one < 0 ? 1 : -1) : one - other;
    }
    return 0;
  };
  const classOf = (column) => (NUMBERS.includes(column.kind) ? "n" : column.kind === "info" ? "info" : "");
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const [FIRST_LINES, MOST_LINES] = [12, 500];
  const buttonOf = (className, text, onClick) => {
    const button = element("button", className, text);
    button.type = "button";
    button.addEventListener("click", onClick);
    return button;
  };
  const searchBox = (onText) => {
    const input = element("input");
    input.type = "search";
    input.addEventListener("input", () => onText(input.value.toLowerCase()));
    const label = element("label", "", "Find ");
    label.append(input);
    return label;
  };
  const hasValue = (column, lines) => lines.some((line) => ![MISSING, "0"].includes(written(column, line)));

  class Table {
    // Optional columns are left out if no line of the whole capture has a value in them.
    constructor(spec, linesOfAll) {
      this.spec = spec;
      this.columns = spec.columns.filter((column) => !column.is_optional || hasValue(column, linesOfAll));
      this.sorted = this.columns.findIndex((column) => column.field === spec.sort);
      this.isDown = true;
      this.text = "";
      this.most = FIRST_LINES;
      this.lines = [];
      this.rest = element("p", "rest");
      this.table = element("table");
      this.table.id = `${spec.name}-table`;
      this.heads = this.columns.map((column, at) => {
        const head = element("th", classOf(column));
        head.scope = "col";
        head.append(buttonOf("", column.title, () => this.sortBy(at)));
        return head;
      });
      this.table.createCaption().textContent = spec.title;
      this.table.createTHead().insertRow().append(...this.heads);
      this.table.createTBody();
      byId("tables").append(this.section(spec, linesOfAll));
      const link = element("a", "", spec.title);
      link.href = `#${spec.name}`;
      const item = element("li");
      item.append(link);
      byId("links").append(item);
    }

    section(spec, linesOfAll) {
      const section = element("section");
      section.id = spec.name;
      const name = element("h2", "", spec.title);
      name.id = `${spec.name}-title`;
      const title = element("div", "title");
      title.append(name);
      if (linesOfAll.length > FIRST_LINES) title.append(this.find());
      const scroll = element("div", "scroll");
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      for (const each of [section, scroll]) each.setAttribute("aria-labelledby", name.id);
      scroll.append(this.table);
      const note = [spec.note, spec.name === "slowest" ? coverageText() : ""].filter(Boolean).join(" ");
      section.append(title, ...(note ? [element("p", "note", note)] : []), scroll, this.rest);
      return section;
    }

    find() {
      const find = element("span", "find");
      find.append(searchBox((text) => {
        this.text = text;
        this.draw();
      }));
      return find;
    }

    sortBy(at) {
      this.isDown = this.sorted === at ? !this.isDown : NUMBERS.includes(this.columns[at].kind);
      this.sorted = at;
      this.draw();
    }

    show(lines) {
      this.lines = lines.sort(inOrder).map((line) => ({ line, texts: this.columns.map((column) => written(column, line)) }));
      this.draw();
    }

    compare(one, other) {
      // The line that sums up the others is last in both directions.
      const [isOthers, areOthers] = [one, other].map(({ line }) => line.key.includes(OTHERS));
      if (isOthers !== areOthers) return isOthers - areOthers;
      const column = this.columns[this.sorted];
      const sign = this.isDown ? -1 : 1;
      if (NUMBERS.includes(column.kind)) {
        const [a, b] = [one.line[column.field], other.line[column.field]];
        // Unknown values are last in both directions.
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (a - b);
      }
      return sign * one.texts[this.sorted].localeCompare(other.texts[this.sorted], "en", { numeric: true });
    }

    draw() {
      const found = this.lines
        .filter((each) => !this.text || each.texts.some((text) => text.toLowerCase().includes(this.text)))
        .sort((one, other) => this.compare(one, other));
      this.heads.forEach((head, at) => {
        if (at === this.sorted) head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      this.table.tBodies[0].replaceChildren(...found.slice(0, this.most).map((each) => this.row(each)));
      this.table.parentElement.hidden = !found.length;
      const more = found.length - this.most;
      this.rest.textContent = more > 0 ? `and ${countText(more)} more` : found.length ? "" : model.missing[this.spec.name] || "none";
      if (more > 0 && this.most < MOST_LINES) {
        this.rest.append(buttonOf("", "Show them", () => {
          this.most = MOST_LINES;
          this.draw();
          this.table.parentElement.focus();
        }));
      }
    }

    row({ line, texts }) {
      const row = element("tr");
      this.columns.forEach((column, at) => {
        const cell = element(at ? "td" : "th", classOf(column));
        if (!at) cell.scope = "row";
        if (column.kind === "failed" && line[column.field]) cell.classList.add("bad");
        const dimension = column.kind === "api" ? "api" : column.dimension;
        const number = column.kind === "api" || column.kind === "name" ? line.key[column.key_index] : NONE;
        if (dimension in selected && number >= 0) {
          const button = buttonOf("pick", texts[at], () => {
            select({ [dimension]: number });
            // The button's line is drawn anew. A keyboard user continues at the control that can
            // undo the selection.
            controls[dimension].focus({ preventScroll: true });
          });
          button.title = `Select ${texts[at]}`;
          cell.append(button);
        } else {
          cell.textContent = texts[at];
          if (texts[at].length > 30) cell.title = texts[at];
        }
        row.append(cell);
      });
      return row;
    }
  }

  // -- drawings ---------------------------------------------------------------------------------

  // [width of a drawing, width of the names at its left, letters in a name]. On a narrow screen
  // drawings are made narrower, so that their text stays readable.
  const WIDE = [720, 240, 34];
  const MOST_NARROW = 480;
  const NARROW = [400, 150, 19];
  let [WIDTH, LABEL, MOST_LETTERS] = WIDE;
  const [LEFT, RIGHT, TOP, AXIS, HEIGHT] = [62, 8, 8, 20, 150];
  const [AFTER, BAR, MOST_BARS, FEW_MARKS, MANY_MARKS] = [70, 18, 20, 3, 6];
  const BINS_TOGETHER = 4;
  const LEVELS = 6;
  const at = (number) => String(Math.floor(number * 10 + 0.5) / 10);
  const shape = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const word = (x, y, text, anchor = "start", className = "lb") =>
    shape("text", { x: at(x), y: at(y), class: className, "text-anchor": anchor }, text);
  const LABELS = {
    histogram: "Histogram of latency, logarithmic",
    heat: "Heat map of latency over time",
    parts: "Shares of the time of requests",
    waterfall: "Waterfall of the slowest requests",
    "lag-lines": "Lag of consumer groups over time",
    "flow-map": "Flows of records from clients by topics to groups",
    timeline: "Joins, syncs and leaves of consumer groups over time",
  };
  const draw = (id, height, parts) => {
    const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": LABELS[id] });
    svg.append(...parts);
    byId(id).replaceChildren(svg);
  };
  const drawNothing = (id) => draw(id, 40, [word(LEFT, 24, "nothing to draw")]);
  // Powers of ten and their negatives; of a thousand if they are many, and their multiples by 2 and 5
  // too if they are few.
  const roundValues = (first, last) => {
    const of = (factors, step) => {
      const values = Array.from({ length: Math.ceil(19 / step) }, (_, power) => factors.map((factor) => factor * 10 ** (power * step))).flat();
      return [...values.filter((value) => value > 1).reverse().map((value) => -value), ...values]
        .map((value) => [value, placeOf(value)])
        .filter(([, place]) => first <= place && place <= last);
    };
    const [thousands, powers] = [of([1], 3), of([1], 1)];
    if (thousands.length >= MANY_MARKS) return thousands;
    return powers.length >= FEW_MARKS ? powers : of([1, 2, 5], 1);
  };
  const timeMarks = (left, bottom, right = WIDTH - RIGHT) => [
    shape("path", { d: `M${left} ${bottom}H${right}`, class: "axis" }),
    ...[[0, "start"], [0.5, "middle"], [1, "end"]].map(([part, anchor]) =>
      word(left + (right - left) * part, bottom + 16, clockText(Math.floor(model.start_us + model.buckets * model.bucket_us * part)), anchor)),
  ];
  const drawHistogram = (sum) => {
    const bins = [...sum.bins].sort((a, b) => a[0] - b[0]);
    if (!bins.length) return drawNothing("histogram");
    const first = bins[0][0] - 1;
    const last = bins[bins.length - 1][0] + 2;
    const step = (WIDTH - LEFT - RIGHT) / (last - first);
    const most = bins.reduce((found, pair) => Math.max(found, pair[1]), 0);
    const bottom = TOP + HEIGHT;
    const bars = bins.map(([bin, count]) =>
      `M${at(LEFT + (bin - first) * step)} ${bottom}V${at(bottom - (HEIGHT * count) / most)}h${at(Math.max(step - 1, 0.5))}V${bottom}z`);
    const parts = [shape("path", { d: bars.join(""), class: "bar" })];
    for (const [value, place] of roundValues(first, last)) {
      const x = LEFT + (place - first) * step;
      parts.push(shape("path", { d: `M${at(x)} ${bottom}v4`, class: "axis" }), word(x, bottom + 16, durationText(value), "middle"));
    }
    for (const name of ["p50", "p99"]) {
      if (!sum[name]) continue;
      const x = LEFT + (placeOf(sum[name]) - first) * step;
      parts.push(shape("path", { d: `M${at(x)} ${TOP}V${bottom}`, class: `mark ${name}` }));
      const isLast = x > WIDTH - 40;
      parts.push(word(isLast ? x - 3 : x + 3, TOP + (name === "p50" ? 9 : 21), name, isLast ? "end" : "start", "lb strong"));
    }
    parts.push(word(LEFT - 6, TOP + 9, countText(most), "end"), word(LEFT - 6, bottom, "0", "end"));
    parts.push(shape("path", { d: `M${LEFT} ${bottom}H${WIDTH - RIGHT}`, class: "axis" }));
    draw("histogram", bottom + AXIS, parts);
  };
  const drawHeat = (times) => {
    const squares = new Map();
    times.forEach((sum, column) => {
      for (const [bin, count] of sum.bins) {
        const row = Math.floor(bin / BINS_TOGETHER);
        const key = column * 4096 + row;
        const square = squares.get(key) || { column, row, count: 0 };
        square.count += count;
        squares.set(key, square);
      }
    });
    const found = [...squares.values()].sort((a, b) => a.column - b.column || a.row - b.row);
    if (!found.length) return drawNothing("heat");
    const low = Math.min(...found.map((square) => square.row));
    const high = Math.max(...found.map((square) => square.row)) + 1;
    const most = found.reduce((count, square) => Math.max(count, square.count), 0);
    const wide = (WIDTH - LEFT - RIGHT) / times.length;
    const tall = HEIGHT / (high - low);
    const paths = Array(LEVELS).fill("");
    for (const { column, row, count } of found) {
      const level = Math.min(Math.floor((Math.log(count) / Math.log(most + 1)) * LEVELS), LEVELS - 1);
      paths[level] += `M${at(LEFT + column * wide)} ${at(TOP + (high - 1 - row) * tall)}h${at(wide)}v${at(tall)}h${at(-wide)}z`;
    }
    const parts = [];
    paths.forEach((path, level) => path && parts.push(shape("path", { d: path, class: `heat${level}` })));
    const bottom = TOP + HEIGHT;
    for (const [value, place] of roundValues(low * BINS_TOGETHER, high * BINS_TOGETHER)) {
      const y = bottom - (place / BINS_TOGETHER - low) * tall;
      parts.push(shape("path", { d: `M${LEFT - 4} ${at(y)}h4`, class: "axis" }), word(LEFT - 6, y + 4, durationText(value), "end"));
    }
    draw("heat", bottom + AXIS, [...parts, ...timeMarks(LEFT, bottom)]);
  };
  const cut = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "\u2026");
  const drawBars = (id, lines) => {
    if (!lines.length) return drawNothing(id);
    const shown = lines.slice(0, MOST_BARS);
    const most = Math.max(1, ...shown.map(([, parts]) => total(parts)));
    const drawn = [];
    shown.forEach(([name, parts, took], number) => {
      const y = number * BAR + 4;
      const scale = (WIDTH - LABEL - AFTER) / most;
      let x = LABEL;
      drawn.push(word(LABEL - 8, y + 11, cut(name, MOST_LETTERS), "end"));
      parts.forEach((part, place) => {
        const wide = Math.max(part * scale, part <= 0 ? 0 : 1);
        if (wide) drawn.push(shape("rect", { x: at(x), y, width: at(wide), height: 13, class: `w ${model.parts[place].class}` }));
        x += wide;
      });
      drawn.push(word(x + 5, y + 11, durationText(took), "start", "lb strong"));
    });
    draw(id, shown.length * BAR + 8, drawn);
  };
  const drawWaterfall = (lines) =>
    drawBars("waterfall", lines.map((line) => [`${line.api_label} ${line.client_label}`, line.parts, total(line.parts)]));
  const drawParts = (sums) => {
    const lines = [...sums.latency_parts].sort((a, b) => a.key.includes(OTHERS) - b.key.includes(OTHERS) || b.whole - a.whole || inOrder(a, b));
    const areMany = new Set(lines.map((line) => line.key[1])).size > 1;
    const nameOf = ([api, broker]) => labelOf("api", api) + (areMany ? ` ${labelOf("broker", broker)}` : "");
    const averages = (line) => PARTS.map((name) => line[name]);
    drawBars("parts", [
      ...sums.all_parts.map((line) => ["all", averages(line), line.total]),
      ...lines.map((line) => [nameOf(line.key), averages(line), line.total]),
    ]);
  };
  const drawTimeline = (events) => {
    const groups = [...new Set(events.map((event) => event.group))].sort((a, b) => a - b).slice(0, 12);
    if (!groups.length) return drawNothing("timeline");
    const wide = WIDTH - RIGHT - LABEL;
    const span = model.buckets * model.bucket_us;
    const parts = [];
    groups.forEach((group, place) => {
      const y = place * 26 + 8;
      parts.push(word(LABEL - 8, y + 13, cut(labelOf("group", group), MOST_LETTERS), "end"));
      parts.push(shape("path", { d: `M${LABEL} ${y + 9}H${WIDTH - RIGHT}`, class: "rail" }));
    });
    for (const event of events) {
      const place = groups.indexOf(event.group);
      if (place < 0) continue;
      const y = place * 26 + 8;
      const x = LABEL + ((event.at - model.start_us) / span) * wide;
      const className = `e ${event.kind}${event.is_error ? " bad" : ""}`;
      if (event.kind === "join" || event.kind === "sync") {
        const width = at(Math.max((event.took / 1000 / span) * wide, 2));
        parts.push(shape("rect", { x: at(x), y: event.kind === "join" ? y : y + 10, width, height: 8, class: className }));
      } else if (event.kind === "leave") {
        parts.push(shape("path", { d: `M${at(x - 4)} ${y + 3}l8 12m0 -12l-8 12`, class: className }));
      } else {
        parts.push(shape("path", { d: `M${at(x)} ${y}v18`, class: className }));
      }
    }
    const bottom = groups.length * 26 + 10;
    draw("timeline", bottom + AXIS, [...parts, ...timeMarks(LABEL, bottom)]);
  };

  const drawLag = () => {
    const most = Math.max(1, ...model.lags.flatMap((line) => line.points.map(([, records]) => records)));
    const scale = (WIDTH - LABEL - AFTER) / model.buckets;
    const tall = 30;
    const drawn = model.lags.flatMap(({ label, points }, place) => {
      const bottom = (place + 1) * tall;
      const steps = points.map(([bucket, records]) => `V${at(bottom - ((tall - 6) * records) / most)}H${at(LABEL + (bucket + 1) * scale)}`);
      const begins = points.map(([bucket]) => LABEL + bucket * scale);
      const path = steps.map((step, number) => (number ? `H${at(begins[number])}` : "") + step).join("");
      const last = points[points.length - 1][1];
      return [
        word(LABEL - 8, bottom - 8, cut(label, MOST_LETTERS), "end"),
        shape("path", { d: `M${at(begins[0])} ${bottom}${path}H${WIDTH - AFTER}V${bottom}z`, class: "bar" }),
        word(WIDTH - AFTER + 5, bottom - 8, countText(last), "start", "lb strong"),
      ];
    });
    const bottom = model.lags.length * tall + 2;
    draw("lag-lines", bottom + AXIS, [...drawn, ...timeMarks(LABEL, bottom, WIDTH - AFTER)]);
  };
  // Clients, topics, groups: a column each; as many of each as have the most bytes.
  const [FLOW_ENDS, FLOW_TALL, THICKEST] = [16, 22, 16];
  let flowText = "";
  const drawFlows = () => {
    const found = model.flows.filter((flow) => `${flow.from}\n${flow.to}`.toLowerCase().includes(flowText));
    const columns = [new Map(), new Map(), new Map()];
    const kept = found.filter((flow) => {
      const ends = flow.is_produce ? [[0, flow.from], [1, flow.to]] : [[1, flow.from], [2, flow.to]];
      if (ends.some(([column, name]) => !columns[column].has(name) && columns[column].size === FLOW_ENDS)) return false;
      for (const [column, name] of ends) if (!columns[column].has(name)) columns[column].set(name, (columns[column].size + 0.5) * FLOW_TALL);
      return true;
    });
    if (!kept.length) return drawNothing("flow-map");
    const most = Math.max(1, ...kept.map((flow) => flow.bytes));
    const [wide, letters] = [WIDTH / 4, Math.floor(MOST_LETTERS * 0.7)];
    const drawn = kept.map((flow) => {
      const [one, other] = flow.is_produce ? [0, 1] : [1, 2];
      const [left, right] = flow.is_produce ? [wide, 1.5 * wide] : [2.5 * wide, 3 * wide];
      const [y, to] = [columns[one].get(flow.from), columns[other].get(flow.to)];
      const middle = (left + right) / 2;
      const line = shape("path", {
        d: `M${at(left)} ${at(y)}C${at(middle)} ${at(y)} ${at(middle)} ${at(to)} ${at(right)} ${at(to)}`,
        class: "flow", "stroke-width": at(Math.max((THICKEST * flow.bytes) / most, 1)),
      });
      line.append(shape("title", {}, `${flow.from} \u2192 ${flow.to}: ${bytesText(flow.bytes)}, ${countText(flow.records)} records`));
      return line;
    });
    const places = [[wide - 4, "end"], [2 * wide, "middle"], [3 * wide + 4, "start"]];
    columns.forEach((column, number) => {
      const [x, anchor] = places[number];
      for (const [name, y] of column) drawn.push(word(x, y + 4, cut(name, letters), anchor, number === 1 ? "lb strong" : "lb"));
    });
    draw("flow-map", Math.max(...columns.map((column) => column.size)) * FLOW_TALL + 4, drawn);
  };
  const makeFlowSearch = () =>
    byId("find-flow").append(searchBox((text) => {
      flowText = text;
      drawFlows();
    }));

  // -- charts over time -------------------------------------------------------------------------

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const starts = Array.from({ length: model.buckets }, (_, bucket) => (model.start_us + bucket * model.bucket_us) / 1e6);
  const perSecond = 1e6 / model.bucket_us;
  const short = (number, unit) => (number === null ? MISSING : scaled(number).join(unit ? " " : "") + unit);
  const CHARTS = [
    { id: "chart-requests", title: "Requests per second", text: (value) => short(value, "") + "/s", lines: [["requests", "--accent", 1]], scale: perSecond },
    { id: "chart-errors", title: "Errors and unanswered per second", text: (value) => short(value, "") + "/s", lines: [["errors", "--bad", 1], ["unanswered", "--second", 1]], scale: perSecond },
    { id: "chart-bytes", title: "Bytes per second", text: (value) => short(value, "B") + "/s", lines: [["sent", "--accent", 1], ["received", "--second", 1]], scale: perSecond },
    { id: "chart-latency", title: "Latency, p50 and p99 (logarithmic)", text: (value) => (value === null ? MISSING : durationText(Math.round(value))), lines: [["p50", "--accent", 0], ["p99", "--bad", 0]], scale: 1, isLog: true },
  ];
  const [LOGARITHMIC, ASINH] = [3, 4]; // uPlot's numbers; a logarithm has no negative latencies
  const hasNegative = cells.some((cell) => cell.latencies.some((bin, at) => at % 2 === 0 && bin < 0));
  // A p99 of fewer requests is the longest of them: a line through such points would be a sawtooth.
  const ENOUGH_FOR_P99 = 100;
  const isFew = (times) => {
    const filled = times.filter((sum) => sum.many);
    return 2 * filled.filter((sum) => sum.many < ENOUGH_FOR_P99).length > filled.length;
  };
  let drawn = [];
  let charts = [];
  let isDrawing = false;
  const dataOf = (chart, times) => [
    starts,
    ...chart.lines.map(([name]) => times.map((sum) => (sum[name] === null ? null : sum[name] * chart.scale))),
  ];
  const bucketAt = (plot, left) =>
    Math.min(Math.max(Math.floor(((plot.posToVal(left, "x") * 1e6 - model.start_us) / model.bucket_us)), 0), model.buckets - 1);
  const onSelect = (plot) => {
    if (isDrawing || plot.select.width < 2) return;
    select({ from: bucketAt(plot, plot.select.left), to: bucketAt(plot, plot.select.left + plot.select.width) });
  };
  // The spans of time of the findings that are shown, each with the colour of its severity.
  const spansOfFindings = () =>
    [...document.querySelectorAll("#findings .finding[data-first]")].filter((item) => !item.hidden).map((item) => ({
      from: Number(item.dataset.first) / 1e6, to: Number(item.dataset.last) / 1e6,
      colour: item.closest("ol > li").classList.contains("grave") ? "--bad" : "--warn",
    }));
  const LEAST_BAND = 3;
  const drawBands = (plot) => {
    const { left, top, width, height } = plot.bbox;
    const spans = spansOfFindings();
    plot.ctx.save();
    for (const span of spans) {
      const [from, to] = [span.from, span.to].map((time) => Math.min(Math.max(plot.valToPos(time, "x", true), left), left + width));
      const wide = Math.max(to - from, LEAST_BAND);
      plot.ctx.fillStyle = colour(span.colour);
      plot.ctx.globalAlpha = 0.13;
      plot.ctx.fillRect(from, top, wide, height);
      plot.ctx.globalAlpha = 0.9;
      plot.ctx.fillRect(from, top, wide, LEAST_BAND);
    }
    plot.ctx.restore();
  };
  const optionsOf = (chart, width, isOfFew) => {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "11px system-ui, sans-serif" };
    return {
      width, height: 160, padding: [6, 26, 0, 0],
      cursor: { sync: { key: "time", setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
      legend: { live: true },
      scales: {
        x: { time: true, range: [starts[0], starts[0] + (model.buckets * model.bucket_us) / 1e6] },
        y: chart.isLog ? { distr: hasNegative ? ASINH : LOGARITHMIC } : { range: (plot, low, high) => [0, (high || 1) * 1.05] },
      },
      axes: [
        { ...axis, size: 26, space: 70, values: (plot, splits) => splits.map((value) => clockText(value * 1e6).replace(/\.000$/, "")) },
        { ...axis, size: 66, space: 30, values: (plot, splits) => splits.map((value) => (value === null ? "" : chart.text(value))) },
      ],
      series: [
        { label: "at", value: (plot, value) => (value === null ? "" : clockText(value * 1e6)) },
        ...chart.lines.map(([name, stroke, isFilled]) => ({
          label: name === "p99" && isOfFew ? "p99 (of few requests: points)" : name,
          stroke: colour(stroke), width: 1.5, spanGaps: false,
          fill: isFilled ? colour(stroke) + "22" : undefined,
          paths: !chart.isLog ? uPlot.paths.stepped({ align: 1 }) : name === "p99" && isOfFew ? () => null : undefined,
          points: { show: chart.isLog, size: 4 },
          value: (plot, value, series, at) => (at === null ? "" : chart.text(value === undefined ? null : value)),
        })),
      ],
      hooks: { setSelect: [onSelect], drawAxes: [drawBands] },
    };
  };
  const showSpan = (plot) => {
    const isWhole = selected.from === null;
    const left = isWhole ? 0 : plot.valToPos(starts[selected.from], "x");
    const right = isWhole ? 0 : plot.valToPos(starts[selected.to] + model.bucket_us / 1e6, "x");
    isDrawing = true;
    plot.setSelect({ left, top: 0, width: right - left, height: plot.over.clientHeight }, false);
    isDrawing = false;
  };
  // Width of one of four charts side by side on A4. The paper layout is not known when they are drawn.
  const PAPER_WIDTH = 240;
  const makeFigures = (times) => {
    drawn = CHARTS.filter((chart) => chart.lines.some(([name]) => times.some((sum) => sum[name])));
    for (const { id, title } of drawn) {
      const canvas = element("div", "canvas");
      canvas.id = id;
      canvas.setAttribute("aria-hidden", "true");
      const figure = element("figure", "chart");
      figure.append(element("figcaption", "", title), canvas);
      byId("charts").append(figure);
    }
  };
  const makeCharts = (times) => {
    charts.forEach((plot) => plot.destroy());
    if (!model.buckets) return;
    charts = drawn.map((chart) => {
      const place = byId(chart.id);
      const width = isPaper() ? PAPER_WIDTH : Math.max(place.clientWidth, 200);
      return new uPlot(optionsOf(chart, width, isFew(times)), dataOf(chart, times), place);
    });
    charts.forEach(showSpan);
  };
  const drawTimes = (sums) => {
    const body = byId("times-table").tBodies[0];
    const bucketNs = model.bucket_us * 1000;
    body.replaceChildren(...sums.times.map((sum, bucket) => {
      const row = element("tr");
      const head = element("th", "", clockText(model.start_us + bucket * model.bucket_us));
      head.scope = "row";
      row.append(head);
      for (const name of ["requests", "errors", "unanswered"]) row.append(element("td", "n", rateText(sum[name], bucketNs, "")));
      for (const name of ["sent", "received"]) row.append(element("td", "n", rateText(sum[name], bucketNs, "B")));
      for (const name of ["p50", "p99"]) row.append(element("td", "n", numberText("ns", sum[name])));
      return row;
    }));
  };

  // -- the whole page ---------------------------------------------------------------------------

  const controls = {};
  const requestsInAll = cells.filter((cell) => !cell.is_again && cell.status !== "orphan_response").reduce((sum, cell) => sum + cell.rows, 0);
  let current = allSums();

  const isPaper = () => document.documentElement.classList.contains("paper");
  const drawTiles = (sum) => {
    const known = sum.requests - sum.unread;
    const share = percentText(known > 0 ? Math.min(sum.errors / known, 1) : 0);
    const unread = sum.unread ? `, ${countText(sum.unread)} not read` : "";
    const tiles = [
      ["requests", "requests", countText(sum.requests)],
      ["errors", "with errors", `${countText(sum.errors)} (${share}${unread})`],
      ["unanswered", "unanswered", countText(sum.unanswered)],
      ["sent", "sent to brokers", bytesText(sum.sent)],
      ["received", "received", bytesText(sum.received)],
      ...["p50", "p99", "max"].map((name) => [name, `latency ${name}`, numberText("ns", sum[name])]),
    ];
    byId("tiles").replaceChildren(...tiles.map(([name, title, text]) => {
      const figure = element("dd", "", text);
      figure.id = `tile-${name}`;
      const tile = element("div");
      tile.append(element("dt", "", title), figure);
      return tile;
    }));
  };
  const limitsText = () => {
    const limited = [["client", "clients"], ["topic", "topics"], ["broker", "brokers"], ["group", "groups"]]
      .filter(([name]) => cells.some((cell) => cell[name] === OTHERS))
      .map(([name, names]) => `${countText(model.names[name].length)} ${names}`);
    return limited.length ? `Only the busiest are listed: ${limited.join(", ")}. The others are summed up.` : "";
  };
  const coverageText = () => {
    const [listed, requests] = [model.slowest.length, total([...current.totals.bins.values()])];
    if (listed >= requests) return "";
    return `The page lists ${countText(listed)} of ${countText(requests)} requests: the slowest of all, and of each ` +
      "client with each API. A selection may have others as slow.";
  };
  const spanText = () =>
    selected.from === null ? [] : [`${clockText(starts[selected.from] * 1e6)} to ${clockText((starts[selected.to]) * 1e6 + model.bucket_us)}`];
  const drawSelected = (sum) => {
    const parts = DIMENSIONS.filter(([name]) => selected[name] !== null).map(([name, title]) => `${title} ${labelOf(name, selected[name])}`);
    byId("selected").textContent = isSelected()
      ? `${[...parts, ...spanText()].join(", ")}: ${countText(sum.requests)} of ${countText(requestsInAll)} requests; quantiles within 5 %`
      : `All ${countText(requestsInAll)} requests; quantiles are exact`;
    byId("command").textContent = commandText();
  };
  const commandText = () => {
    const chosen = DIMENSIONS.map(([name]) => name).filter((name) => selected[name] !== null);
    if (!isSelected() || chosen.some((name) => selected[name] < 0 || !model.names[name][selected[name]].option)) return "";
    const words = chosen.map((name) => model.names[name][selected[name]].option);
    if (selected.from !== null) {
      words.push(`--since ${isoText(starts[selected.from] * 1e6)}`, `--until ${isoText(starts[selected.to] * 1e6 + model.bucket_us)}`);
    }
    return `kanalyze requests CAPTURE ${words.join(" ")}`;
  };
  const drawFindings = () => {
    const items = [...document.querySelectorAll("#findings .finding")];
    let hidden = 0;
    for (const item of items) {
      const { first, last } = item.dataset;
      const isBeside = selected.from !== null && first !== undefined &&
        (Number(last) < starts[selected.from] * 1e6 || Number(first) >= starts[selected.to] * 1e6 + model.bucket_us);
      const isOther = isBeside || DIMENSIONS.some(([name]) => selected[name] !== null && name in item.dataset && Number(item.dataset[name]) !== selected[name]);
      item.hidden = isOther;
      hidden += isOther;
    }
    for (const kind of document.querySelectorAll("#findings ol > li")) {
      kind.hidden = !kind.querySelector(".finding:not([hidden])");
    }
    const others = hidden ? `${hidden} of ${items.length} findings concern others than what is selected. ` : "";
    byId("findings-note").textContent = isSelected() && items.length ? `${others}The figures of findings are of the whole capture.` : "";
  };
  const drawDrawings = () => {
    const isNarrow = !isPaper() && byId("histogram").clientWidth < MOST_NARROW;
    [WIDTH, LABEL, MOST_LETTERS] = isNarrow ? NARROW : WIDE;
    drawHistogram(current.totals);
    drawHeat(current.times);
    drawParts(current);
    drawWaterfall(current.slowest);
    if (model.lags.length) drawLag();
    if (model.flows.length) drawFlows();
    drawTimeline(model.group_events.filter((event) => isIn(event, false)));
  };
  const drawAll = () => {
    current = allSums();
    drawTiles(current.totals);
    drawSelected(current.totals);
    drawFindings();
    drawDrawings();
    drawTimes(current);
    for (const table of tables) table.show(current[table.spec.name]);
    charts.forEach((plot, number) => {
      plot.setData(dataOf(drawn[number], current.times));
      showSpan(plot);
    });
    for (const [name, control] of Object.entries(controls)) {
      control.value = selected[name] === null ? "" : String(selected[name]);
      control.classList.toggle("set", selected[name] !== null);
    }
  };
  const select = (changes) => {
    Object.assign(selected, changes);
    if (selected.from !== null && selected.to === null) selected.to = model.buckets - 1;
    if (selected.to !== null && selected.from === null) selected.from = 0;
    if (selected.from !== null && selected.from > selected.to) [selected.from, selected.to] = [selected.to, selected.from];
    // The frame of a notebook has no address to change.
    if (location.protocol !== "about:") history.replaceState(null, "", addressOf());
    drawAll();
  };
  // What is selected, in the address: names rather than numbers, for the page of another capture.
  const SELECTS = "#select?";
  const addressOf = () => {
    const words = new URLSearchParams();
    for (const [name] of DIMENSIONS) if (selected[name] !== null) words.set(name, labelOf(name, selected[name]));
    if (selected.from !== null) {
      words.set("since", isoText(starts[selected.from] * 1e6));
      words.set("until", isoText(starts[selected.to] * 1e6 + model.bucket_us));
    }
    return words.size ? SELECTS + words : location.pathname + location.search;
  };
  const selectedInAddress = () => {
    if (!location.hash.startsWith(SELECTS)) return {};
    const words = new URLSearchParams(location.hash.slice(SELECTS.length));
    const found = {};
    for (const [name] of DIMENSIONS) {
      const number = model.names[name].findIndex((line) => line.label === words.get(name));
      if (number >= 0) found[name] = number;
      else if (words.get(name) === model.others[name]) found[name] = OTHERS;
    }
    const [since, until] = ["since", "until"].map((name) => Date.parse(words.get(name)) * 1000);
    if (since < until && until > model.start_us && since < model.start_us + model.buckets * model.bucket_us) {
      const bucketOf = (us) => Math.min(Math.max(Math.floor((us - model.start_us) / model.bucket_us), 0), model.buckets - 1);
      Object.assign(found, { from: bucketOf(since), to: bucketOf(until - 1) });
    }
    return found;
  };
  const makeFindings = () => {
    for (const item of document.querySelectorAll("#findings .finding")) {
      const own = DIMENSIONS.map(([name]) => name).filter((name) => Number(item.dataset[name] ?? OTHERS) >= 0);
      if (!own.length) continue;
      item.lastElementChild.append(buttonOf("concerns", "Select its requests", () => {
        select({ ...nothing(), ...Object.fromEntries(own.map((name) => [name, Number(item.dataset[name])])) });
        byId("filter").scrollIntoView();
        controls[own[0]].focus({ preventScroll: true });
      }));
    }
  };
  const nothing = () => Object.fromEntries(Object.keys(selected).map((name) => [name, null]));
  const control = (name, title, options) => {
    const label = element("label", "", title);
    const box = element("select");
    box.append(new Option("all", ""), ...options.map(([value, text]) => new Option(text, String(value))));
    box.addEventListener("change", () => select({ [name]: box.value === "" ? null : Number(box.value) }));
    controls[name] = box;
    label.append(box);
    byId("controls").append(label);
  };
  const makeControls = () => {
    for (const [name, title] of DIMENSIONS) {
      const present = new Set(cells.map((cell) => cell[name]));
      const options = model.names[name].map((line, number) => [number, cut(line.label, 60)]).filter(([number]) => present.has(number));
      if (present.has(OTHERS)) options.push([OTHERS, model.others[name]]);
      if (options.length) control(name, title, options);
    }
    control("from", "From", starts.map((start, bucket) => [bucket, clockText(start * 1e6)]));
    control("to", "To", starts.map((start, bucket) => [bucket, clockText(start * 1e6 + model.bucket_us)]));
    const clear = buttonOf("", "Clear", () => select(nothing()));
    clear.id = "clear";
    byId("state").append(clear);
  };

  byId("no-figures").remove();
  for (const hidden of document.querySelectorAll(".script")) hidden.hidden = false;
  byId("limits").textContent = limitsText();
  byId("keys").append(...model.parts.flatMap((part) => [" ", element("span", `key ${part.class}`, part.title)]));
  for (const [id, lines] of [["timeline", model.group_events], ["lag-lines", model.lags], ["flow-map", model.flows]]) {
    byId(id).parentElement.hidden = !lines.length;
  }
  makeFlowSearch();
  const tables = model.tables
    .filter((spec) => !spec.is_optional || current[spec.name].length)
    .map((spec) => new Table(spec, current[spec.name]));
  makeFigures(current.times);
  makeControls();
  makeFindings();
  Object.assign(selected, selectedInAddress());
  drawAll();
  makeCharts(current.times);
  let width = byId("charts").clientWidth;
  addEventListener("resize", () => {
    if (byId("charts").clientWidth === width) return;
    width = byId("charts").clientWidth;
    drawDrawings();
    makeCharts(current.times);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => makeCharts(current.times));
  // Print in black on white, charts too.
  const onPaper = (isBegun) => {
    document.documentElement.classList.toggle("paper", isBegun);
    drawDrawings();
    makeCharts(current.times);
  };
  addEventListener("hashchange", () => {
    if (location.hash.startsWith(SELECTS)) select({ ...nothing(), ...selectedInAddress() });
  });
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
  document.documentElement.dataset.ready = "yes";
})();
