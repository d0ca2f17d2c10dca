// Web addresses in messages become links. The text of a link is its address, so it cannot
// show another one.

const ADDRESS = /\bhttps?:\/\/[^\s<>"]+/gu;
const AFTER_AN_ADDRESS = /[.,;:!?'…)\]}]+$/u; // belongs to the sentence

/** The text as nodes: text and links. */
export function linked(text) {
  const nodes = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(ADDRESS)) {
    const address = withoutSentence(found);
    if (!URL.canParse(address)) continue;
    nodes.push(text.slice(end, index), link(address));
    end = index + address.length;
  }
  return [...nodes, text.slice(end)];
}

/** A bracket that the address opens belongs to it. */
function withoutSentence(found) {
  const tail = found.match(AFTER_AN_ADDRESS)?.[0] ?? "";
  const address = found.slice(0, found.length - tail.length);
  return tail.startsWith(")") && address.includes("(") && !address.includes(")") ? `${address})` : address;
}

function link(address) {
  const a = document.createElement("a");
  a.href = a.textContent = address;
  a.target = "_blank";
  a.rel = "noopener noreferrer nofollow";
  return a;
}
