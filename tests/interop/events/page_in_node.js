// Runs the page's script on a document that keeps what it is given, and prints that as JSON.
const fs = require("fs"), vm = require("vm");
const [script, status, overview, hash] = process.argv.slice(2);
const texts = [], attributes = [], tags = [], elements = {};
class Element {
  constructor(tag) { tags.push(tag); this.dataset = {}; this.classList = { add() {}, remove() {} }; }
  append(...parts) { for (const part of parts) if (typeof part === "string") texts.push(part); }
  replaceChildren(...parts) { this.append(...parts); }
  setAttribute(key, value) { attributes.push(String(value)); }
  addEventListener() {}
  set textContent(text) { texts.push(text); this.text = text; }
  set title(text) { attributes.push(text); }
  set innerHTML(text) { throw new Error("markup"); }
}
const byId = (id) => (elements[id] ??= new Element("section"));
const asked = [];
const fetch = async (url, { headers }) => {
  asked.push([url, headers.Authorization ?? ""]);
  if (status === "0") throw new TypeError("refused");
  return { status: +status, ok: status === "200", json: async () => JSON.parse(overview) };
};
const document = {
  createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag),
  getElementById: byId, querySelector: () => byId("main"), querySelectorAll: () => [], hidden: false,
};
vm.runInNewContext(fs.readFileSync(script, "utf8"), {
  document, fetch, location: { hash }, URLSearchParams, setTimeout() {}, Date, Number,
});
setImmediate(() => setImmediate(() => {
  const state = byId("state").text;
  console.log(JSON.stringify({ texts, attributes, tags: [...new Set(tags)].sort(), asked, state }));
}));
