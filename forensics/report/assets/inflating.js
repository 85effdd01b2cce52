"use strict";
// Unpacks gzip (RFC 1951, 1952) in one go. The browser's own way is quicker, but lets the page go on
// meanwhile: who prints does not wait for it, and old browsers do not have it.
globalThis.inflating = (() => {
  const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
  // How many bits more belong to a code, and from where on it counts.
  const steps = (from, extra) => {
    const starts = [];
    for (const bits of extra) {
      starts.push(from);
      from += 1 << bits;
    }
    return starts;
  };
  const FAR_BITS = Array.from({ length: 30 }, (_, code) => Math.max(0, (code >> 1) - 1));
  const FAR = steps(1, FAR_BITS);
  const LONG_BITS = Array.from({ length: 28 }, (_, code) => Math.max(0, (code >> 2) - 1)).concat(0);
  const LONG = steps(3, LONG_BITS);
  LONG[28] = 258;

  // For every next few bits the symbol that they begin with, and how many of them are its.
  const tableOf = (lengths) => {
    const most = Math.max(1, ...lengths);
    const entries = new Uint16Array(1 << most);
    let code = 0;
    for (let length = 1; length <= most; length += 1) {
      for (let symbol = 0; symbol < lengths.length; symbol += 1) {
        if (lengths[symbol] !== length) continue;
        let mirrored = 0;
        for (let bit = 0; bit < length; bit += 1) mirrored |= ((code >> bit) & 1) << (length - 1 - bit);
        for (let at = mirrored; at < entries.length; at += 1 << length) entries[at] = (symbol << 4) | length;
        code += 1;
      }
      code <<= 1;
    }
    return { entries, most };
  };
  const fixed = () => {
    const lengths = Array.from({ length: 288 }, (_, at) => (at < 144 ? 8 : at < 256 ? 9 : at < 280 ? 7 : 8));
    return [tableOf(lengths), tableOf(new Array(30).fill(5))];
  };

  // Where the packed bytes begin: a name and the like may stand before them.
  const headed = (bytes) => {
    if (bytes[0] !== 31 || bytes[1] !== 139 || bytes[2] !== 8) throw new Error("it is not packed as gzip");
    let at = 10;
    if (bytes[3] & 4) at += 2 + bytes[at] + 256 * bytes[at + 1];
    for (const flag of [8, 16]) if (bytes[3] & flag) at = bytes.indexOf(0, at) + 1;
    return at + (bytes[3] & 2 ? 2 : 0);
  };

  return (bytes) => {
    const out = new Uint8Array(new DataView(bytes.buffer, bytes.byteOffset).getUint32(bytes.length - 4, true));
    let [at, to, held, count] = [headed(bytes), 0, 0, 0];
    const fill = (bits) => {
      for (; count < bits; count += 8) held |= bytes[at++] << count;
    };
    const take = (bits) => {
      fill(bits);
      const value = held & ((1 << bits) - 1);
      held >>>= bits;
      count -= bits;
      return value;
    };
    const next = ({ entries, most }) => {
      fill(most);
      const entry = entries[held & (entries.length - 1)];
      if (!entry) throw new Error("it is damaged");
      held >>>= entry & 15;
      count -= entry & 15;
      return entry >> 4;
    };
    const described = () => {
      const [plain, far, codes] = [take(5) + 257, take(5) + 1, take(4) + 4];
      const short = new Array(19).fill(0);
      for (let code = 0; code < codes; code += 1) short[ORDER[code]] = take(3);
      const [table, lengths] = [tableOf(short), []];
      while (lengths.length < plain + far) {
        const symbol = next(table);
        if (symbol < 16) lengths.push(symbol);
        else if (symbol === 16) lengths.push(...new Array(3 + take(2)).fill(lengths.at(-1)));
        else lengths.push(...new Array(symbol === 17 ? 3 + take(3) : 11 + take(7)).fill(0));
      }
      return [tableOf(lengths.slice(0, plain)), tableOf(lengths.slice(plain))];
    };
    const copied = () => {
      at -= count >> 3;
      held = count = 0;
      const size = bytes[at] + 256 * bytes[at + 1];
      out.set(bytes.subarray(at + 4, at + 4 + size), to);
      at += 4 + size;
      to += size;
    };
    const unpacked = ([plain, far]) => {
      for (let symbol = next(plain); symbol !== 256; symbol = next(plain)) {
        if (to > out.length || at > bytes.length) throw new Error("it is damaged");
        if (symbol < 256) {
          out[to++] = symbol;
          continue;
        }
        const size = LONG[symbol - 257] + take(LONG_BITS[symbol - 257]);
        const code = next(far);
        const from = to - FAR[code] - take(FAR_BITS[code]);
        // What is repeated may reach into what it makes.
        for (let place = 0; place < size; place += 1) out[to++] = out[from + place];
      }
    };
    for (let last = 0; !last; ) {
      last = take(1);
      const kind = take(2);
      if (kind === 3 || at > bytes.length) throw new Error("it is damaged");
      if (kind === 0) copied();
      else unpacked(kind === 1 ? fixed() : described());
    }
    if (to !== out.length) throw new Error("it is damaged");
    return out;
  };
})();
