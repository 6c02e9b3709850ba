/* Arrow keys in a grid: one stop of the Tab key, whatever the number of cells. */

const CELLS = "[data-key]";
const PAGE = 10;

/** Let arrow keys move the focus between the elements with `data-key` of a grid's rows.
 *
 * `prepare` is called with a row before the focus goes there.
 */
export function roving(grid, prepare) {
  let current = null;

  function cellsOf(row) {
    return [...row.querySelectorAll(CELLS)];
  }

  function choose(cell) {
    if (current && current !== cell) current.tabIndex = -1;
    current = cell;
    if (current) current.tabIndex = 0;
  }

  function go(row, column) {
    if (!row) return;
    prepare(row);
    const cells = cellsOf(row);
    const cell = cells[Math.max(0, Math.min(column, cells.length - 1))];
    if (!cell) return;
    choose(cell);
    cell.focus();
    cell.scrollIntoView({ block: "nearest" });
  }

  grid.addEventListener("focusin", (event) => {
    const cell = event.target.closest(CELLS);
    if (cell) choose(cell);
  });

  grid.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || !current?.isConnected || event.target.closest(CELLS) !== current) return;
    const row = current.closest("[role=row]");
    const rows = [...grid.children].filter((each) => each.querySelector(CELLS));
    const at = rows.indexOf(row);
    const column = cellsOf(row).indexOf(current);
    const steps = {
      ArrowRight: () => go(row, column + 1),
      ArrowLeft: () => go(row, column - 1),
      ArrowDown: () => go(rows[at + 1], column),
      ArrowUp: () => go(rows[at - 1], column),
      PageDown: () => go(rows[Math.min(at + PAGE, rows.length - 1)], column),
      PageUp: () => go(rows[Math.max(at - PAGE, 0)], column),
      Home: () => go(event.ctrlKey ? rows[0] : row, 0),
      End: () => go(event.ctrlKey ? rows.at(-1) : row, Infinity),
    };
    const step = steps[event.key];
    if (step) {
      event.preventDefault();
      step();
    }
  });

  return {
    /** After rows have changed: some cell can be reached by Tab. */
    check() {
      const found = current?.dataset.key ? grid.querySelector(`[data-key="${CSS.escape(current.dataset.key)}"]`) : null;
      choose(found ?? grid.querySelector(CELLS));
    },
  };
}
