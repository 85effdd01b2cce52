"use strict";
// What an open quoted line shows besides itself: the commands that show it with the lines around
// it, and the rest of it, where the page had no room.
globalThis.quotes = (() => {
  const AROUND = 5;
  let stories = null;
  const read = async () => {
    const { findings } = JSON.parse(await globalThis.unpacking.findings());
    return new Map(findings.map((one) => [one.id, one.evidence]));
  };
  const complete = async (chip) => {
    const place = chip.dataset.quote;
    const slash = place.lastIndexOf("/");
    delete chip.dataset.quote;
    const text = (await (stories ??= read())).get(place.slice(0, slash))?.[place.slice(slash + 1)]?.text;
    if (!text) return;
    chip.querySelector("pre:not(.near)").textContent = globalThis.unpacking.visible(text);
    const says = chip.querySelector("small");
    says.firstChild.data = says.firstChild.data.replace(/^and [\d,]+ characters? more in findings\.json(; )?/, "");
  };

  const READERS = { gz: "zcat", bz2: "bzcat", xz: "xzcat", zst: "zstdcat" };
  // The plain command that prints a line and those around it, as the names of files tell it; none
  // where a name would have to be quoted, or tells of a form that no plain tool reads from a pipe.
  const plain = (name, number) => {
    if (!/^[\w./!+@=:,-]+$/.test(name)) return null;
    const [first, last] = [Math.max(1, number - AROUND), number + AROUND];
    const lines = `sed -n '${first},${last}p;${last}q'`;
    const [path, ...members] = name.split("!");
    if (members.length > 1) return null;
    const [member] = members;
    const reader = READERS[/\.(gz|bz2|xz|zst)$/.exec(member ?? path)?.[1]];
    if (member === undefined) return reader ? `${reader} ${path} | ${lines}` : `${lines} ${path}`;
    const whole = /\.(zip|jar)$/i.test(path) ? `unzip -p ${path} ${member}` : `tar -xOf ${path} -- ${member}`;
    return [whole, ...(reader ? [reader] : []), lines].join(" | ");
  };
  // A name with marks that cannot be typed is no name to ask for: its finding is.
  const commands = (place, finding = "FINDING") => {
    const show = (what) => `kafka-forensics show ${what} --archive ARCHIVE`;
    const [, name, number] = /^(.*):(\d+)$/s.exec(place) ?? [];
    if (!name || /[⟨\p{Cc}]/u.test(name)) return [show(finding)];
    const quoted = `'${place.replaceAll("'", "'\\''")}'`;
    return [show(quoted), plain(name, Number(number))].filter(Boolean);
  };

  // It does not bubble: it is heard on its way down.
  document.addEventListener(
    "toggle",
    ({ target: chip }) => {
      if (!chip.open || !chip.classList.contains("chip")) return;
      if (chip.dataset.quote && globalThis.unpacking.isWhole) complete(chip);
      if (chip.querySelector(".command") || matchMedia("print").matches) return;
      const of = chip.closest(".card")?.id ?? chip.closest("tr")?.previousElementSibling?.querySelector("a")?.hash.slice(1);
      const lines = commands(chip.querySelector("summary").textContent.trim(), of);
      const block = document.createElement("pre");
      block.className = "command";
      block.tabIndex = 0;
      block.textContent = lines.join("\n");
      block.append(globalThis.copying.button("Copy", () => lines.join("\n")));
      chip.append(block);
    },
    true,
  );
  return { commands };
})();
