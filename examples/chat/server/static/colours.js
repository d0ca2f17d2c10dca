// The colours of names. Members that are shown together have different colours while there are
// enough. Text that is read on them, or in them, has enough contrast: style.css sets how light
// they are.

const HUES = [25, 250, 145, 320, 75, 195, 285, 110, 350, 225, 50, 170];

let given = new Map(); // member id → hue

/** The hue of a member, in degrees. It belongs to the id: people of one name can be told apart. */
export function hueOf(id) {
  let hue = given.get(id);
  if (hue === undefined) {
    const first = [...id].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9973, 7) % HUES.length;
    const inOrder = [...HUES.slice(first), ...HUES.slice(0, first)];
    const taken = new Set(given.values());
    hue = inOrder.find((free) => !taken.has(free)) ?? inOrder[0];
    given.set(id, hue);
  }
  return hue;
}

/** Another room has other members. */
export function forgetColours() {
  given = new Map();
}
