/** The server counts characters in Unicode code points, JavaScript in UTF-16 units. */

/**
 * Return the UTF-16 offset of each code point offset, in one pass over the text.
 * @param {string} text
 * @param {number[]} offsets in any order
 * @returns {Map<number, number>}
 */
export function utf16Offsets(text, offsets) {
  const wanted = [...new Set(offsets)].sort((a, b) => a - b);
  const found = new Map();
  let units = 0;
  let points = 0;
  for (const offset of wanted) {
    while (points < offset && units < text.length) {
      units += text.codePointAt(units) > 0xffff ? 2 : 1;
      points += 1;
    }
    found.set(offset, units);
  }
  return found;
}
