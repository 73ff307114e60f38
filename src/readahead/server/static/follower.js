/** Goes along with text that grows at the end of what one reads, unless one has gone back in it. */

const NEAR_PX = 120; // from the end

export class Follower {
  /** @param {HTMLElement} node that scrolls */
  constructor(node) {
    this.node = node;
    this.isNear = true;
    this.frame = 0;
    node.addEventListener("scroll", () => {
      this.isNear = node.scrollHeight - node.scrollTop - node.clientHeight < NEAR_PX;
    });
  }

  /** Text has come; once a frame is enough, for each time all of it is laid out. */
  follow() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (this.isNear) this.node.scrollTo({ top: this.node.scrollHeight, behavior: "instant" });
    });
  }
}
