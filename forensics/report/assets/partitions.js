"use strict";
// The partitions that changed: searched and opened out of the data that the page holds.
globalThis.partitions = (() => {
  const block = document.getElementById("partitions-data");
  const table = document.getElementById("partitions-table");
  if (!block || !table) return null;
  const UNKNOWN = -2;
  const MOST = 200;
  const CHANGES = 400;
  const caption = table.caption.textContent;
  let known = null;

  const { visible } = globalThis.unpacking;
  const quoted = (text) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`.toUpperCase());
  const spot = (topic, number) => `p/${quoted(topic)}/${number}`;

  const read = () => {
    const told = JSON.parse(block.textContent);
    const rows = told.rows.map(([at, number, lost, unclean, dark, thin, epochs, versions, leader, place]) => {
      const topic = told.topics[at];
      return { topic, number, lost, unclean, dark, thin, epochs, versions, leader, place };
    });
    for (const row of rows) {
      row.name = `${row.topic}-${row.number}`;
      row.words = row.name.toLowerCase();
    }
    return { ...told, rows, brokers: new Map(), byId: new Map(rows.map((row) => [spot(row.topic, row.number), row])) };
  };
  const all = () => (known ??= read());

  // Every broker that led it or was in sync.
  const brokers = (row) => {
    const { histories, isrs, brokers: cache } = all();
    if (row.place < 0) return new Set([row.leader]);
    if (!cache.has(row.place)) {
      const [led, synced] = histories[row.place];
      const found = new Set();
      for (let at = 0; at < led.length; at += 4) if (led[at] >= 0) found.add(led[at]);
      for (let at = 0; at < synced.length; at += 2) {
        for (const one of isrs[synced[at]] ?? []) found.add(one);
      }
      cache.set(row.place, found);
    }
    return cache.get(row.place);
  };

  const grouped = (number) => number.toLocaleString("en-US");
  const lasting = (ms) => {
    if (ms < 1000) return `${ms} ms`;
    if (ms < 60000) return `${(ms / 1000).toFixed(1).replace(/\.0$/, "")} s`;
    const whole = Math.round(ms / 1000);
    if (ms < 3600000) return `${Math.floor(whole / 60)} min ${whole % 60} s`.replace(/ 0 s$/, "");
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`.replace(/ 0 min$/, "");
  };
  const leader = (number) => (number === null || number === UNKNOWN ? "not known" : number === -1 ? "none" : `${number}`);
  const clock = (ms) => {
    const { zone, from, to } = all();
    const [day, time] = new Date(ms + zone).toISOString().replace("Z", "").split("T");
    const edges = [from, to].map((edge) => new Date(edge + zone).toISOString().slice(0, 10));
    return edges.every((edge) => edge === day) ? time : `${day} ${time}`;
  };

  const make = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const drawn = (row) => {
    const id = spot(row.topic, row.number);
    const line = make("tr", undefined, { id });
    const head = make("th", undefined, { scope: "row" });
    head.append(make("a", visible(row.name), { href: `#${id}` }));
    const cells = [
      row.lost === null ? "not bounded" : grouped(row.lost),
      grouped(row.unclean),
      row.dark ? lasting(row.dark) : "-",
      row.thin ? lasting(row.thin) : "-",
      grouped(row.epochs),
      grouped(row.versions),
      leader(row.leader),
    ];
    line.append(head, ...cells.map((text) => make("td", text, { class: "number" })));
    return line;
  };

  // Show some rows, or, with null, those that the page came with.
  const show = (rows) => {
    const { rows: every, shown } = all();
    const chosen = rows ?? every;
    table.tBodies[0].replaceChildren(...chosen.slice(0, rows ? MOST : shown).map(drawn));
    const found = `${grouped(chosen.length)} of ${grouped(every.length)} partitions that changed`;
    const more = chosen.length > MOST ? `, the worst ${MOST} shown` : "";
    table.caption.textContent = rows ? found + more : caption;
  };

  const changes = (row) => {
    const { histories, isrs, from } = all();
    const [led, synced] = histories[row.place];
    const turns = new Map();
    const turn = (at) => turns.get(at) ?? turns.set(at, {}).get(at);
    let at = from;
    for (let place = 0; place < led.length; place += 4) {
      at += led[place + 2];
      const mark = led[place + 3];
      const words = leader(led[place]) + (mark & 1 ? " (unclean)" : "") + (mark & 2 ? " (inferred)" : "");
      Object.assign(turn(at), { led: words, epoch: led[place + 1] < 0 ? "-" : `${led[place + 1]}` });
    }
    at = from;
    for (let place = 0; place < synced.length; place += 2) {
      at += synced[place + 1];
      const isr = synced[place] < 0 ? "not known" : isrs[synced[place]].join(", ") || "none";
      Object.assign(turn(at), { isr });
    }
    let last = { led: "not known", epoch: "-", isr: "not known" };
    return [...turns].sort(([one], [other]) => one - other).map(([moment, new_]) => {
      last = { ...last, ...new_ };
      return [clock(moment), last.led, last.epoch, last.isr];
    });
  };

  const told = (row) => {
    const holder = make("tr", undefined, { class: "history" });
    const inside = make("td", undefined, { colspan: table.tHead.rows[0].cells.length });
    holder.append(inside);
    const name = visible(row.name);
    const command = "kafka-forensics timeline OUT --partition TOPIC-N";
    if (row.place < 0) {
      inside.append(make("p", `The history of ${name} is not in this page: ${command} shows it.`));
      return holder;
    }
    const rows = changes(row);
    const list = make("table");
    const cut = rows.length > CHANGES ? `, the first ${CHANGES} of ${grouped(rows.length)} changes` : "";
    const head = make("tr");
    for (const word of [`From, ${all().label}`, "Leader", "Leader epoch", "In sync"]) {
      head.append(make("th", word, { scope: "col" }));
    }
    const body = make("tbody");
    for (const cells of rows.slice(0, CHANGES)) {
      const line = make("tr");
      line.append(...cells.map((text) => make("td", text, { class: "short" })));
      body.append(line);
    }
    const top = make("thead");
    top.append(head);
    list.append(make("caption", `History of ${name}${cut}`), top, body);
    inside.append(list);
    return holder;
  };

  // Open the history of one partition; gives its row, or null where there is no such partition.
  const open = (topic, number) => {
    const id = spot(topic, number);
    const row = all().byId.get(id);
    if (!row) return null;
    let line = document.getElementById(id);
    if (!line) {
      line = drawn(row);
      table.tBodies[0].prepend(line);
    }
    if (!line.nextElementSibling?.classList.contains("history")) line.after(told(row));
    return line;
  };
  table.addEventListener("click", (event) => {
    const line = event.target.closest("th a")?.closest("tr");
    const shown = line?.nextElementSibling;
    if (!shown?.classList.contains("history")) return;
    shown.remove();
    event.preventDefault();
    if (!globalThis.addresses.boxed) history.replaceState(null, "", "#partitions");
  });

  return { all: () => all().rows, brokers, open, show };
})();
