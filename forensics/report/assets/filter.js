"use strict";
// One filter over findings, partitions, brokers and clients: words, and broker:3 level>=high.
globalThis.filter = (() => {
  const field = document.getElementById("find");
  const box = field?.closest(".finder");
  const data = document.getElementById("report-data");
  if (!box || !data) return null;
  const says = document.getElementById("found");
  const LEVELS = ["info", "low", "medium", "high", "critical"];
  const KINDS = { finding: "findings", partition: "partitions", broker: "brokers", client: "clients" };
  const FIELDS = new Set(["broker", "client", "detector", "id", "level", "partition", "state", "topic"]);
  let index = null;
  let states = new Set();

  const topicOf = (name) => name.slice(0, name.lastIndexOf("-"));
  const lower = (values) => (values ?? []).map((value) => `${value}`.toLowerCase());
  const about = (found) => ({
    id: [found.id.toLowerCase()],
    level: [LEVELS.indexOf(found.severity)],
    detector: [found.detector.toLowerCase()],
    state: [...(/^[a-z]+( [a-z]+)*/.exec((found.state ?? "").toLowerCase())?.slice(0, 1) ?? []), ...(found.accepted_until ? ["accepted"] : [])],
    broker: lower(found.brokers),
    client: lower(found.clients),
    partition: lower(found.partitions),
    topic: [...new Set(lower(found.partitions?.map(topicOf)))],
  });
  // What is in no finding still has its own fields; what is in some has theirs too.
  const with_ = (own, stories) => {
    const fields = { ...own };
    for (const name of ["id", "level", "detector", "state"]) {
      fields[name] = stories.flatMap((story) => story[name]);
    }
    return fields;
  };

  const build = () => {
    const every = JSON.parse(data.textContent).findings ?? [];
    const stories = new Map(every.map((found) => [found.id, about(found)]));
    const of = { broker: new Map(), partition: new Map() };
    for (const story of stories.values()) {
      for (const [name, known] of Object.entries(of)) {
        for (const one of story[name]) known.set(one, [...(known.get(one) ?? []), story]);
      }
    }
    const entries = [];
    for (const element of document.querySelectorAll("[data-kind]")) {
      const words = element.textContent.toLowerCase();
      const { kind } = element.dataset;
      let fields = {};
      if (kind === "broker") {
        const broker = element.dataset.broker;
        fields = with_({ broker: broker ? [broker] : [] }, of.broker.get(broker) ?? []);
      } else fields = stories.get(element.dataset.of ?? element.id) ?? {};
      entries.push({ kind, element, words, fields });
    }
    const rows = globalThis.partitions?.all() ?? [];
    for (const row of rows) {
      let fields = null;
      entries.push({
        kind: "partition",
        row,
        words: row.words,
        // Ten thousand of them are rarely asked for all that they are about.
        get fields() {
          const own = {
            partition: [row.words, `${row.number}`],
            topic: [row.topic.toLowerCase()],
            broker: [...globalThis.partitions.brokers(row)].map(String),
          };
          return (fields ??= with_(own, of.partition.get(row.words) ?? []));
        },
      });
    }
    // The name of a state is no word to be found in texts: "the new leader" is in many of them.
    states = new Set([...stories.values()].flatMap((story) => story.state));
    return entries;
  };

  // What is wanted, token by token; what is no field is a word to be found.
  const parse = (text) => {
    const tokens = text.toLowerCase().match(/(?:[a-z]+(?::|>=|<=|>|<|=))?"[^"]*"?|\S+/g) ?? [];
    return tokens.flatMap((token) => {
      const [, name, sign, rest] = /^([a-z]+)(:|>=|<=|>|<|=)(.*)$/.exec(token) ?? [];
      if (!FIELDS.has(name)) return [{ word: token.replaceAll('"', "") }];
      const values = rest.replaceAll('"', "").split(",").filter(Boolean);
      // A field without a value is still being typed.
      return values.length ? [{ name, sign: sign === ":" ? "=" : sign, values }] : [];
    });
  };
  const compared = (sign, level, wanted) =>
    ({ "=": level === wanted, ">=": level >= wanted, "<=": level <= wanted, ">": level > wanted, "<": level < wanted })[sign];
  const fits = (token, entry) => {
    if ("word" in token) {
      if (states.has(token.word)) return (entry.fields.state ?? []).includes(token.word);
      return entry.words.includes(token.word);
    }
    const have = entry.fields[token.name] ?? [];
    if (token.name === "level") {
      return token.values.some((value) => have.some((one) => one >= 0 && compared(token.sign, one, LEVELS.indexOf(value))));
    }
    return token.values.some((value) => have.includes(value));
  };

  const unknownLevels = (tokens) =>
    tokens.flatMap((token) => (token.name === "level" ? token.values.filter((one) => !LEVELS.includes(one)) : []));

  const apply = (text) => {
    const tokens = parse(text);
    const unknown = unknownLevels(tokens);
    if (unknown.length) {
      says.textContent = `unknown level: ${unknown.join(", ")}; there are ${LEVELS.join(", ")}`;
      return null;
    }
    if (!tokens.length) {
      for (const element of document.querySelectorAll("[data-hidden]")) element.removeAttribute("data-hidden");
      globalThis.partitions?.show(null);
      says.replaceChildren();
      return null;
    }
    index ??= build();
    const counts = new Map();
    const rows = [];
    for (const entry of index) {
      const count = counts.get(entry.kind) ?? counts.set(entry.kind, [0, 0]).get(entry.kind);
      count[1] += 1;
      const stays = tokens.every((token) => fits(token, entry));
      count[0] += stays;
      if (entry.row) {
        if (stays) rows.push(entry.row);
        continue;
      }
      entry.element.toggleAttribute("data-hidden", !stays);
      // What is found in a fold would not be seen there.
      if (stays) for (let fold = entry.element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    }
    globalThis.partitions?.show(rows);
    tell(counts);
    if (![...counts.values()].some(([found]) => found)) says.textContent = `no match for ${text}`;
    return counts;
  };
  const tell = (counts) => {
    const parts = [...counts].flatMap(([kind, [found, every]]) => {
      const link = document.createElement("a");
      link.href = `#${KINDS[kind]}`;
      link.textContent = `${KINDS[kind]} ${found.toLocaleString("en-US")} of ${every.toLocaleString("en-US")}`;
      return [", ", link];
    });
    says.replaceChildren(...parts.slice(1));
  };

  box.hidden = false;
  // Before the first key, so that none has to wait for it.
  field.addEventListener("focus", () => (index ??= build()));
  let waits = 0;
  field.addEventListener("input", () => {
    cancelAnimationFrame(waits);
    waits = requestAnimationFrame(() => apply(field.value));
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") index?.find(({ element }) => element && !element.hasAttribute("data-hidden"))?.element.scrollIntoView();
    if (event.key !== "Escape") return;
    field.value = "";
    apply("");
  });
  const set = (text) => {
    field.value = text;
    return apply(text);
  };
  return { apply, set, value: () => field.value };
})();
