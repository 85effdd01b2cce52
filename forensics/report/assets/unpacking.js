"use strict";
// What the page holds packed: the library of its figures, and findings.json where it is long.
globalThis.unpacking = (() => {
  const bytesOf = (packed) => Uint8Array.from(atob(packed), (mark) => mark.charCodeAt(0));
  const text = async (packed) => {
    if (!globalThis.DecompressionStream) {
      throw new Error("that takes Chrome or Edge 80, Firefox 113, Safari 16.4, or a newer one");
    }
    const plain = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(plain).text();
  };
  const held = document.getElementById("report-data");
  const whole = document.getElementById("report-whole");
  // All of findings.json as text; what is cut in it where the page had no room.
  let report = null;
  const findings = () => (report ??= whole ? text(whole.textContent) : Promise.resolve(held?.textContent ?? "{}"));
  // As the page's own escape: what a browser would hide or obey is shown as its code.
  const visible = (words) =>
    words.replaceAll("\r\n", "\n").replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (mark) => {
      const number = mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      return `⟨U+${number}⟩`;
    });
  return { findings, isWhole: Boolean(whole), text, visible };
})();
