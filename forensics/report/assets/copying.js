"use strict";
// Copies commands, findings and tables, where the policy of the page and a file:// allow it.
globalThis.copying = (() => {
  const put = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers that do not trust a file with the clipboard still copy what is selected.
      const field = document.createElement("textarea");
      field.value = text;
      field.className = "off-screen";
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
  };

  const button = (words, text, name) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "copy";
    made.textContent = words;
    if (name) made.setAttribute("aria-label", `${words}: ${name}`);
    made.addEventListener("click", async () => {
      await put(await text());
      made.textContent = "Copied";
      setTimeout(() => (made.textContent = words), 1500);
    });
    return made;
  };

  // The same escape as that of the Markdown export: no name can link, call somebody, or draw.
  const plain = (text) =>
    text
      .replace(/\s+/g, " ")
      .trim()
      .replace(/[\\`*_[\]<>|~&$^]/g, "\\$&")
      .replace(/:(?=\/\/|[\w+-]*[A-Za-z][\w+-]*:)|(?<=www)\./gi, "\\$&")
      .replace(/([@#])(?=\w)/g, "$1\u2060")
      .replace(/^(\d+)?(?=[-+=#.)])/, (mark) => `${mark}\\`);
  const code = (text) => {
    const runs = text.match(/`+/g) ?? [];
    const ticks = "`".repeat(Math.max(0, ...runs.map((run) => run.length)) + 1);
    const pad = runs.length ? " " : "";
    return `${ticks}${pad}${text.replace(/\s+/g, " ").trim() || " "}${pad}${ticks}`;
  };
  const fenced = (lines) => {
    const runs = lines.join("\n").match(/`+/g) ?? [];
    const ticks = "`".repeat(Math.max(3, ...runs.map((run) => run.length + 1)));
    return `${ticks}text\n${lines.join("\n")}\n${ticks}`;
  };

  // What is folded in a cell is not what one sees of a table: of a quoted line, only its place.
  const cell = (one) => {
    const kept = one.cloneNode(true);
    for (const gone of kept.querySelectorAll("pre, button, .chip small")) gone.remove();
    const parts = [];
    const walk = (node) => {
      if (node.nodeType === Node.TEXT_NODE) parts.push(node.data);
      else {
        const apart = /^(DIV|P|SMALL|SPAN|DETAILS|LI)$/.test(node.nodeName);
        if (apart) parts.push(" ");
        node.childNodes.forEach(walk);
        if (apart) parts.push(" ");
      }
    };
    walk(kept);
    return plain(parts.join(""));
  };
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const table = (one) => {
    const head = [...one.tHead.rows[0].cells].map(cell);
    const rows = [...one.tBodies].flatMap((body) => [...body.rows]).filter((row) => !row.hidden && !row.classList.contains("proof"));
    const lines = rows.map((row) => {
      const cells = [...row.cells].map(cell);
      if (row.cells[0].classList.contains("part")) cells[0] = `**${cells[0]}**`;
      return line([...cells, ...Array(Math.max(0, head.length - cells.length)).fill("")]);
    });
    return [line(head), line(head.map(() => "---")), ...lines].join("\n") + "\n";
  };

  const finding = (card) => {
    const text = (selector) => card.querySelector(selector)?.textContent ?? "";
    const [, number, title] = /^(\d+\. )?(.*)$/s.exec(text("h3 a"));
    const parts = [`## ${number ?? ""}${plain(title)}`];
    parts.push(`${plain(text("h3 .badge"))}, ${plain(text(".when p"))}`);
    for (const pair of card.querySelectorAll(".scope > div, .reasons > div")) {
      const items = [...pair.querySelectorAll("li")].map((one) => plain(one.textContent));
      const says = items.length ? items.join(" ") : plain(pair.querySelector("dd").textContent);
      parts.push(`- ${plain(pair.querySelector("dt").textContent)}: ${says}`);
    }
    for (const one of card.querySelectorAll(":scope > p")) parts.push(plain(one.textContent));
    const chips = [...card.querySelectorAll(".chip")];
    if (chips.length) parts.push(`Evidence, ${chips.length} lines:`);
    for (const chip of chips) {
      const quoted = chip.querySelector("pre:not(.near, .command)")?.textContent;
      const place = chip.querySelector("summary").textContent;
      parts.push(quoted ? fenced([place, ...quoted.split("\n")]) : code(place));
    }
    const todo = [...card.querySelectorAll(".actions > li")];
    if (todo.length) parts.push("What to do:");
    for (const step of todo) {
      for (const part of step.children) {
        const is = part.classList.contains("command");
        const says = part.querySelector("code")?.textContent;
        parts.push(is ? fenced(says.split("\n")) : plain(part.textContent));
      }
    }
    return parts.join("\n\n") + "\n";
  };

  const report = () => globalThis.unpacking.findings();
  const save = async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await report()], { type: "application/json" }));
    link.download = "findings.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  for (const block of document.querySelectorAll("pre.command")) {
    const words = block.textContent;
    block.append(button("Copy", () => words));
  }
  for (const card of document.querySelectorAll(".card")) {
    const name = card.querySelector("h3 a")?.textContent ?? card.id;
    card.querySelector(".when")?.append(button("Copy as Markdown", () => finding(card), name));
  }
  for (const one of document.querySelectorAll("table[data-copy]")) {
    const made = button("Copy as Markdown table", () => table(one), one.dataset.copy);
    made.classList.add("of-table");
    one.closest(".scroll").before(made);
  }
  const tools = document.getElementById("report-tools");
  if (tools) {
    const saves = button("Save findings.json", () => "");
    const other = saves.cloneNode(true);
    other.addEventListener("click", save);
    tools.append(button("Copy findings.json", report), " ", other);
    tools.hidden = false;
  }
  return { button, finding, plain, table };
})();
